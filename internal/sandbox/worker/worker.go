// Package worker implements the protocol of docs/worker-protocol.md between the
// daemon and the Python process of one sandbox after lockdown. It contains both
// ends: Conn is the daemon's, and Python is the source of the worker's, which
// backends install with the interpreter as the package sandpiper.
//
// Conn treats every byte as hostile: it bounds frames, calls, output and images,
// and discards frames of earlier executions. It neither starts nor kills
// processes; the backend does.
package worker

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing/fstest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	generated "github.com/sandpiper-mcp/sandpiper/internal/tool/codegen/python"
)

//go:embed python/*.py
var python embed.FS

// Module is Python of a feature: a module of the package sandpiper.features; see python/__init__.py.
type Module struct {
	Name  string
	Files fs.FS // NAME.py, or the files of a package NAME
}

// Python returns a file system with the modules of the package sandpiper at its root, and those of features.
// One of them is the part of the package servers that all tenants share, so that it
// is compiled when it is installed. The directory example has such a package, whose import the zygote rehearses.
func Python(features ...Module) fs.FS {
	files := fstest.MapFS{}
	put := func(name string, data []byte) { files[name] = &fstest.MapFile{Data: data, Mode: 0o444} }
	putAll := func(dir string, from fs.FS) error {
		return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(from, name)
			put(path.Join(dir, name), data)
			return err
		})
	}
	own, err := fs.Sub(python, "python")
	err = errors.Join(err, putAll("", own))
	var names []string
	for _, f := range features {
		err = errors.Join(err, putAll("features", f.Files))
		names = append(names, f.Name)
	}
	if err != nil {
		panic(err) // the files are embedded
	}
	put("features/__init__.py", []byte(listModules(names)))
	put("servers_package.py", []byte(generated.Servers))
	example := codegen.Server{Module: "example", Name: "example", Tools: []tool.Definition{{Ref: tool.Ref{Tool: "call"},
		Input: []byte(`{"properties":{"a":{"type":"string"},"b":{"type":"integer","default":1},"c":{"type":"string"}},"required":["a"],"additionalProperties":{}}`)}}}
	for _, f := range append(codegen.Root([]codegen.Server{example}), codegen.Generate(example)...) {
		put("example/servers/"+f.Path, f.Data)
	}
	return files
}

// listModules returns the module that imports others, and lists them.
func listModules(names []string) string {
	if len(names) == 0 {
		return "MODULES = ()\n"
	}
	all := strings.Join(names, ", ")
	return "from . import " + all + "\n\nMODULES = (" + all + ",)\n"
}

// Limits bound one connection.
type Limits struct {
	// ResultBytes bounds the JSON of a result; 0 means 64 MiB.
	ResultBytes int64
	// WriteTimeout bounds the write of one frame; a worker that does not read it in
	// time loses its execution. 0 means 20 seconds.
	WriteTimeout time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.ResultBytes == 0 {
		l.ResultBytes = 64 << 20
	}
	if l.WriteTimeout == 0 {
		l.WriteTimeout = 20 * time.Second
	}
	return l
}

const (
	// callWeight is the weight of a call in flight besides its bytes, and callBudget
	// the total weight allowed: 128 small calls, or 3 of the largest. Others wait.
	callWeight = 512 << 10
	callBudget = 64 << 20
	// maxAnswer bounds the answer of a Host to one call.
	maxAnswer = 64 << 20
	// callWait bounds the wait for host calls that ignore their context.
	callWait = 5 * time.Second
)

// Conn is the daemon's end of the channel to one worker. Run is for one caller
// at a time; Close may be called at any time from anywhere.
type Conn struct {
	limits  Limits
	ch      io.ReadWriteCloser
	raw     syscall.RawConn // nil if ch is not pollable
	input   input
	in      *bufio.Reader // of input
	calls   *semaphore.Weighted
	lines   lines
	pipes   []*pipe
	writing sync.Mutex // serializes outgoing frames
	once    sync.Once  // guards Close

	mu   sync.Mutex
	run  *run // nil between executions
	dead bool // no further execution is possible
}

// New returns the connection to a worker that has reported its lockdown. It
// takes ownership of ch, whose Close must end pending reads and writes, and of the
// pipes of the process's own stdout and stderr, each of which may be nil.
func New(ch io.ReadWriteCloser, stdout, stderr io.ReadCloser, limits Limits) *Conn {
	c := &Conn{
		limits: limits.withDefaults(),
		ch:     ch,
		raw:    pollable(ch),
		calls:  semaphore.NewWeighted(callBudget),
	}
	c.input = input{ch: ch, raw: c.raw}
	c.in = bufio.NewReaderSize(&c.input, 8<<10)
	c.lines.item = func(p []byte) {
		if r := c.current(); r != nil {
			_ = r.output(p) // an error has ended the execution
		}
	}
	if stdout != nil {
		c.pipes = append(c.pipes, startPipe(stdout, c.lines.take))
	}
	if stderr != nil {
		c.pipes = append(c.pipes, startPipe(stderr, func(p []byte) {
			if r := c.current(); r != nil {
				r.addStderr(p)
			}
		}))
	}
	return c
}

// Close closes the channel and the pipes. The worker exits when it reads EOF.
func (c *Conn) Close() error {
	var err error
	c.once.Do(func() {
		err = c.ch.Close()
		for _, p := range c.pipes {
			err = errors.Join(err, p.close())
		}
	})
	return err
}

// Run executes p under the given number, which must be one more than the last,
// and serves it through host until it ends. If ctx ends first, the channel is
// closed and the outcome has the status of the cause. The caller kills the process
// after every outcome that is not Reusable. Crashed with an empty Error means that
// the channel ended; the backend determines the cause. An error means that p is
// invalid.
func (c *Conn) Run(ctx context.Context, number uint32, p sandbox.Program, host sandbox.Host) (sandbox.Outcome, error) {
	frame, err := encodeExecute(number, p, c.limits.ResultBytes)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	r := newRun(ctx, c, number, host)
	r.refusable = p.Restriction != "" || p.Preflight
	if p.Seed != nil {
		r.readings = sandbox.MaxClockReadings - len(p.Clock)
	}
	if !c.begin(r) {
		r.detach()
		r.cancel(errOver)
		return ended(sandbox.Crashed, "", "the interpreter of this sandbox has ended"), nil
	}
	o := r.serve(frame)
	c.end(o)
	return o, nil
}

func (c *Conn) begin(r *run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.run != nil {
		return false
	}
	c.run = r
	return true
}

func (c *Conn) end(o sandbox.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = nil
	c.dead = !o.Status.Reusable()
}

func (c *Conn) current() *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run
}
