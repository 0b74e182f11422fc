// Package worker speaks with the Python process of one sandbox, once that is
// sealed, as docs/worker-protocol.md lays down. It holds both halves: Conn is
// the daemon's, and Python is the source of the other, which backends install
// beside the interpreter as the package named sandpiper.
//
// The daemon's half distrusts every byte: it bounds frames, calls, output and
// pictures, and believes nothing that comes late. It starts and kills no
// process; that is the backend's business.
package worker

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

//go:embed python/*.py
var python embed.FS

// Python returns the modules of the package sandpiper, at the root.
func Python() fs.FS {
	sub, err := fs.Sub(python, "python")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// Limits bound one connection.
type Limits struct {
	// ResultBytes is the most that the JSON of a result may have; 0 means 64 MiB.
	ResultBytes int64
	// WriteTimeout is how long the worker may leave one frame unread before it
	// loses its execution; 0 means 20 seconds.
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
	// callWeight is what a call in flight counts for besides its bytes, and
	// callBudget what all together may count for: 128 small calls, or 3 of the
	// longest. More wait.
	callWeight = 512 << 10
	callBudget = 64 << 20
	// longestAnswer bounds what a Host may answer to one call.
	longestAnswer = 64 << 20
	// patience bounds the wait for calls of the host that ignore their context.
	patience = 5 * time.Second
)

// Conn is the daemon's end of the channel to one worker. Run is for one caller
// at a time; Close may be called at any time from anywhere.
type Conn struct {
	limits  Limits
	ch      io.ReadWriteCloser
	raw     syscall.RawConn // nil if ch is none that the runtime polls
	in      *bufio.Reader
	calls   *semaphore.Weighted
	lines   lines
	pipes   []*pipe
	writing sync.Mutex // one frame at a time goes out
	once    sync.Once  // of Close

	mu   sync.Mutex
	run  *run // nil between executions
	dead bool // no further execution is possible
}

// New returns the connection to a worker that has said that it is sealed. It
// takes over ch, whose Close must end pending reads and writes, and the pipes
// of the process's own stdout and stderr, each of which may be nil.
func New(ch io.ReadWriteCloser, stdout, stderr io.ReadCloser, limits Limits) *Conn {
	c := &Conn{
		limits: limits.withDefaults(),
		ch:     ch,
		raw:    polled(ch),
		in:     bufio.NewReaderSize(ch, 8<<10),
		calls:  semaphore.NewWeighted(callBudget),
	}
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
				r.takeStderr(p)
			}
		}))
	}
	return c
}

// Close closes the channel and the pipes. The worker ends when it notices.
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

// Run executes p as the execution of that number, which must be one more than
// the last, and serves it through host until it ended. If ctx ends first the
// channel is closed and the outcome says why; killing the process is then the
// backend's part, as it is after every outcome that does not live. Crashed
// with an empty Error means that the channel ended: only the backend can say
// why. An error means that p could not be sent because of what it is.
func (c *Conn) Run(ctx context.Context, number uint32, p sandbox.Program, host sandbox.Host) (sandbox.Outcome, error) {
	frame, err := encodeExecute(number, p, c.limits.ResultBytes)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	r := newRun(ctx, c, number, host)
	r.refusable = p.Restricted || p.Preflight
	if p.Seed != nil {
		r.readings = sandbox.MaxClockReadings - len(p.Clock)
	}
	if !c.begin(r) {
		r.keep()
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
