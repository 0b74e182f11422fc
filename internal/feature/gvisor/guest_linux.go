package gvisor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// guest is one container from start to end.
type guest struct {
	b       *Backend
	id      string
	dir     string // bundle and state of runsc
	cmd     *exec.Cmd
	channel *os.File // a socket
	conn    *worker.Conn
	out     *os.File // descriptors 1 and 2 of the worker
	err     *os.File
	exited  chan struct{} // closed when runsc and the sentry have ended

	group  *process.Cgroup // nil if there are none
	sentry *sentry
	base   int64 // memory in use when the worker was locked down, which does not count towards the limit
	once   sync.Once
}

// header is the line that the worker receives before its lockdown.
type header struct {
	Packages string   `json:"packages"`
	Preload  []string `json:"preload"`
	Binds    []bindAt `json:"binds"`
	UID      int      `json:"uid"`    // 0: it has its uid already
	Mounts   []string `json:"mounts"` // none: they are complete
	Cwd      string   `json:"cwd"`
	RLimits  rlimits  `json:"rlimits"`
	AS       int64    `json:"as"`  // bytes that a process may add to its address space
	CPU      int64    `json:"cpu"` // seconds
	Filter   string   `json:"filter"`
}

// bindAt is a directory of the guest that the worker mounts at another place.
type bindAt struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// rlimits are those that a process of the guest can set. Those of queued signals and messages
// are in the bundle.
type rlimits struct {
	Core   int64 `json:"CORE"`
	NoFile int64 `json:"NOFILE"`
	FSize  int64 `json:"FSIZE"`
	Lock   int64 `json:"MEMLOCK"`
	NProc  int64 `json:"NPROC"`
}

// startTime bounds the start of a sandbox until the lockdown of its worker.
const startTime = 30 * time.Second

var errClosed = errors.New("sandbox: the backend is closed")

// start starts a sandbox for spec and waits until its worker is locked down.
func (b *Backend) start(ctx context.Context, spec sandbox.Spec) (*guest, error) {
	id := strconv.FormatInt(b.next.Add(1), 36) // short: it is part of the path of a socket
	g := &guest{b: b, id: id, dir: filepath.Join(b.dir, id), exited: make(chan struct{})}
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.tasks.Done()
	if err := g.run(spec); err != nil {
		g.release()
		return nil, err
	}
	err := g.lockDown(ctx, spec)
	b.tasks.Go(g.awaitExit)
	if err == nil {
		err = b.register(g)
	}
	if err != nil {
		g.kill()
		err = fmt.Errorf("starting a sandbox: %w: %s", err, g.readStderr())
		g.end()
		return nil, err
	}
	if text := g.writtenStderr(); text != "" {
		b.cfg.Log.Warn("a sandbox wrote messages when it started; a module of sandbox.preload may have failed", "stderr", text)
	}
	g.conn = worker.New(g.channel, g.out, g.err, worker.Limits{ResultBytes: spec.Limits.ResultBytes})
	return g, nil
}

// The limits of a cgroup are those of the spec plus the needs of runsc, the gofer and the sentry. The
// watch measures the guest alone, so it is usually first. Code that makes the host create as many
// processes as the cgroup allows would end the sentry; RLIMIT_NPROC inside is lower.
const (
	ownMemory     = 160 << 20
	ownProcesses  = 256 // including threads
	hostProcesses = 4   // for each process inside
)

// run starts runsc.
func (g *guest) run(spec sandbox.Spec) error {
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		return err
	}
	if err := g.b.writeBundle(g.dir, spec); err != nil {
		return err
	}
	theirs, err := g.openFiles()
	defer closeAll(theirs)
	if err != nil {
		return err
	}
	l := spec.Limits
	if g.group, err = g.b.groups.Take(l.MemoryBytes+ownMemory, ownProcesses+hostProcesses*l.Processes); err != nil {
		return fmt.Errorf("creating a cgroup: %w", err)
	}
	args := g.b.program.command(g.dir, "run", "--bundle="+g.dir, fmt.Sprintf("--pass-fd=%d:%d", channelFD, channelFD), g.id)
	g.cmd = &exec.Cmd{
		Path: args[0], Args: args, Env: environment, Dir: "/",
		Stdout: theirs[1], Stderr: theirs[2], ExtraFiles: theirs[:1],
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
	}
	return g.b.starter.start(g.cmd, g.group)
}

// openFiles creates the channel and the pipes and returns the ends of the worker. Standard
// output must be pipes: runsc overwrites a regular file.
func (g *guest) openFiles() ([]*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	_ = unix.SetNonblock(pair[1], false)
	g.channel = os.NewFile(uintptr(pair[0]), "channel")
	theirs := []*os.File{os.NewFile(uintptr(pair[1]), "channel")}
	for _, f := range []**os.File{&g.out, &g.err} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("pipe: %w", err)
		}
		*f = r
		theirs = append(theirs, w)
	}
	return theirs, nil
}

var lockedDownFrame = []byte("\x00\x00\x00\x02S\x00\x00\x00\x00{}")

// lockDown sends the header and waits until the worker reports its lockdown.
func (g *guest) lockDown(ctx context.Context, spec sandbox.Spec) error {
	deadline := time.Now().Add(startTime)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = g.channel.SetDeadline(deadline)
	expire := func() { _ = g.channel.SetDeadline(time.Now()) }
	stop, stopEnding := context.AfterFunc(ctx, expire), context.AfterFunc(g.b.ending, expire)
	defer stop()
	defer stopEnding()
	body, err := json.Marshal(g.b.header(spec))
	if err != nil {
		return err
	}
	if _, err := g.channel.Write(append(body, '\n')); err != nil {
		return err
	}
	got := make([]byte, len(lockedDownFrame))
	if _, err := io.ReadFull(g.channel, got); err != nil {
		return err
	}
	if string(got) != string(lockedDownFrame) {
		return errors.New("unexpected first frame")
	}
	if g.sentry, err = findSentry(g.cmd.Process.Pid); err != nil {
		return err
	}
	g.base = g.sentry.memory()
	if !stop() || !stopEnding() {
		return errors.Join(context.Cause(ctx), g.b.ending.Err())
	}
	return g.channel.SetDeadline(time.Time{})
}

func (b *Backend) header(spec sandbox.Spec) header {
	l := spec.Limits
	h := header{
		Preload: append([]string{}, b.cfg.Preload...), Mounts: []string{}, Cwd: "/workspace",
		RLimits: rlimits{Core: 1, NoFile: int64(l.OpenFiles), FSize: l.FileBytes, NProc: int64(l.Processes)},
		CPU:     max(1, int64(l.CPU/time.Second)),
		AS:      l.MemoryBytes + l.MemoryBytes/4,
		Filter:  base64.StdEncoding.EncodeToString(process.WorkerFilter()),
	}
	if b.cfg.Packages != "" {
		h.Packages = keeper.PackagesDir
	}
	h.Binds = []bindAt{}
	for i, m := range spec.Mounts {
		if at := mountedAt(m, i); at != m.Target {
			h.Binds = append(h.Binds, bindAt{at, m.Target})
		}
	}
	return h
}

// readStderr returns the end of the stderr of a sandbox that did not start, of which runsc and
// the worker write.
func (g *guest) readStderr() string {
	_ = g.err.SetReadDeadline(time.Now().Add(2 * time.Second))
	b, _ := io.ReadAll(io.LimitReader(g.err, 16<<10))
	return strings.TrimSpace(string(b))
}

// writtenStderr returns what is in the pipe now, which is not of the code.
func (g *guest) writtenStderr() string {
	buf, n := make([]byte, 16<<10), 0
	if c, err := g.err.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }) // it does not block
	}
	return strings.TrimSpace(string(buf[:max(n, 0)]))
}

func (g *guest) hasExited() bool {
	select {
	case <-g.exited:
		return true
	default:
		return false
	}
}

// kill ends runsc, the gofer and the sentry, with all code in it.
func (g *guest) kill() {
	g.sentry.kill()
	_ = g.cmd.Process.Kill() // and the others by their parent death signal
}

// awaitExit waits for runsc and the sentry.
func (g *guest) awaitExit() {
	_ = g.cmd.Wait()
	g.sentry.wait()
	close(g.exited)
}

func (g *guest) exitsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.exited:
		return true
	case <-t.C:
		return false
	}
}

// end kills the sandbox and releases its resources in the background.
func (g *guest) end() {
	g.once.Do(func() {
		g.kill()
		g.b.tasks.Go(func() {
			if !g.exitsWithin(10 * time.Second) {
				g.b.cfg.Log.Error("a killed runsc does not exit")
			}
			g.release()
		})
	})
}

// release closes and removes the files of a sandbox that has ended.
func (g *guest) release() {
	if g.conn != nil {
		g.conn.Close()
	}
	closeAll([]*os.File{g.channel, g.out, g.err})
	g.sentry.close()
	g.group.Put()
	if err := os.RemoveAll(g.dir); err != nil {
		g.b.cfg.Log.Warn("removing the files of a sandbox failed", "error", err)
	}
	g.b.forget(g)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
