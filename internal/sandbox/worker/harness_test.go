//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// forker is a zygote without isolation: it warms the runtime once, completely or, with
// the argument "early", as a zygote before its first fork, and forks a worker for every message, which is the
// workspace's path with the worker's
// channel, stdout and stderr.
const forker = `
import _socket, os, resource, signal, sys
sys.path.insert(0, sys.argv[1])
from sandpiper import later, runtime, zygote
del sys.path[0]
rehearsal = runtime.warm()
if sys.argv[2:] != ["early"]:
    for _ in zygote.settle(later.import_steps(), rehearsal):
        pass
control = _socket.socket(fileno=3)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    data, rights, _, _ = control.recvmsg(65536, _socket.CMSG_SPACE(3 * 4))
    if not data:
        break
    fds = memoryview(rights[0][2]).cast("i")
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        os.setsid()
        channel, out, err = fds
        os.dup2(out, 1), os.dup2(err, 2), os.close(out), os.close(err)
        rehearsal.run()
        interpreter = runtime.prepare(data.decode())
        os.write(channel, b"\0\0\0\2S\0\0\0\0{}")
        os.chdir(data.decode())
        runtime.serve(interpreter, channel)
    for fd in fds:
        os.close(fd)
`

// zygote is a forker of a test binary.
type zygote struct {
	early   bool
	once    sync.Once
	err     error
	mu      sync.Mutex
	control *net.UnixConn
	cmd     *exec.Cmd
	install *python.Installation
}

var shared, early = &zygote{}, &zygote{early: true}

func TestMain(m *testing.M) {
	code := m.Run()
	shared.stop()
	early.stop()
	os.Exit(code)
}

func (z *zygote) start() error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	z.install, err = python.Install(context.Background(), python.Config{
		Dir:     filepath.Join(cache, "sandpiper-test"),
		Overlay: worker.Python(daemon.Modules([]daemon.Feature{skill.Feature().Feature, state.Feature().Feature})...),
	})
	if err != nil {
		return err
	}
	ours, theirs, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return err
	}
	defer theirs.Close()
	z.control = ours
	dir := z.install.Dir()
	z.cmd = exec.Command(filepath.Join(dir, "bin", "python3.14"), "-I", "-S", "-B", "-c", forker, dir)
	if z.early {
		z.cmd.Args = append(z.cmd.Args, "early")
	}
	z.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8"}
	z.cmd.ExtraFiles = []*os.File{theirs}
	z.cmd.Stderr = os.Stderr
	return z.cmd.Start()
}

func (z *zygote) stop() {
	if z.control != nil {
		z.control.Close()
		_ = z.cmd.Wait()
		z.install.Close()
	}
}

func socketPair(kind int) (*net.UnixConn, *os.File, error) {
	p, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(p[0]), "ours")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, nil, err
	}
	return c.(*net.UnixConn), os.NewFile(uintptr(p[1]), "theirs"), nil
}

// pyWorker is a worker without a sandbox around it.
type pyWorker struct {
	*worker.Conn
	dir    string // the workspace
	number uint32
}

// open forks a worker whose workspace is a fresh directory.
func open(t testing.TB, limits worker.Limits) *pyWorker {
	t.Helper()
	return shared.open(t, limits)
}

func (z *zygote) open(t testing.TB, limits worker.Limits) *pyWorker {
	t.Helper()
	z.once.Do(func() { z.err = z.start() })
	if z.err != nil {
		t.Skipf("no Python to test with: %v", z.err)
	}
	w, err := z.fork(t.TempDir(), limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func (z *zygote) fork(dir string, limits worker.Limits) (*pyWorker, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	channel, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	out, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outW.Close()
	stderr, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer errW.Close()
	rights := syscall.UnixRights(int(theirs.Fd()), int(outW.Fd()), int(errW.Fd()))
	if _, _, err := z.control.WriteMsgUnix([]byte(dir), rights, nil); err != nil {
		return nil, err
	}
	if f, err := worker.ReadFrame(channel, 0); err != nil || f.Kind != worker.LockedDown {
		return nil, fmt.Errorf("the worker began with %q, %w", f.Kind, err)
	}
	return &pyWorker{Conn: worker.New(channel, out, stderr, limits), dir: dir}, nil
}

func (w *pyWorker) run(ctx context.Context, t testing.TB, code, vars string, h sandbox.Host) sandbox.Outcome {
	t.Helper()
	w.number++
	o, err := w.Run(ctx, w.number, sandbox.Program{ID: "exec_test", Code: code, Vars: json.RawMessage(vars)}, h)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// host answers calls like the layers above and records progress and output.
type host struct {
	mu       sync.Mutex
	skills   map[string]string
	used     []string // skills
	state    []byte   // arguments of the last save_state
	output   []string
	progress []string // arguments of progress
	limit    int      // maximum number of output items; 0 means unlimited

	met int
	all chan struct{} // closed when twenty have met
}

func newHost() *host { return &host{skills: map[string]string{}, all: make(chan struct{})} }

func (h *host) meet(ctx context.Context) ([]byte, error) {
	h.mu.Lock()
	if h.met++; h.met == 20 {
		close(h.all)
	}
	h.mu.Unlock()
	select {
	case <-h.all:
		return []byte("20"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *host) Output(p []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limit > 0 && len(h.output) == h.limit {
		return fault.New(fault.Exhausted, "output limit of %d items reached", h.limit)
	}
	h.output = append(h.output, string(p))
	return nil
}

// CallNow serves the calls that Call serves without waiting for others.
func (h *host) CallNow(ctx context.Context, method string, args []byte) ([]byte, bool, error) {
	if method != "echo" && method != "load_skill" {
		return nil, false, nil
	}
	result, err := h.Call(ctx, method, args)
	return result, true, err
}

func (h *host) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	var a struct{ Name, Code, Kind, Text string }
	if err := json.Unmarshal(args, &a); err != nil && method != "echo" {
		return nil, fault.Wrap(fault.Invalid, err, "the arguments of %s are wrong", method)
	}
	switch method {
	case "echo":
		return args, nil
	case "wait": // until the execution ends
		<-ctx.Done()
		return nil, ctx.Err()
	case "meet": // twenty callers, or the execution's end
		return h.meet(ctx)
	case "fail":
		return nil, failures[a.Kind]
	case "tokenize": // knows one address
		return json.Marshal(map[string]any{"text": strings.ReplaceAll(a.Text, "ada@example.org", mail),
			"tokens": map[string]string{mail: "ada@example.org"}})
	case "detokenize":
		return json.Marshal(map[string]string{"text": strings.ReplaceAll(a.Text, mail, "ada@example.org")})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch method {
	case "progress":
		h.progress = append(h.progress, string(args))
		return nil, nil
	case "ask": // says yes to everything but no
		return answerTo(args)
	case "save_skill":
		h.skills[a.Name] = a.Code
		return json.Marshal(map[string]string{"message": fmt.Sprintf("Skill '%s' saved successfully", a.Name)})
	case "load_skill":
		code, ok := h.skills[a.Name]
		if !ok {
			return nil, fault.New(fault.NotFound, "Skill not found: %s", a.Name)
		}
		return json.Marshal(map[string]any{"name": a.Name, "code": code, "metadata": map[string]string{"name": a.Name}})
	case "list_skills":
		list := []map[string]string{}
		for name := range h.skills {
			list = append(list, map[string]string{"name": name})
		}
		return json.Marshal(list)
	case "search_skills":
		return args, nil
	case "save_state": // version 2 is present
		if strings.Contains(string(args), `"version":1`) {
			return []byte(`{"version":2,"conflict":"it has version 2"}`), nil
		}
		h.state = args
		return []byte(`{"version":3}`), nil
	case "get_state":
		if a.Name == "none" {
			return []byte(`{"version":0,"value":null}`), nil
		}
		return fmt.Appendf(nil, `{"version":2,"value":%s}`, h.state), nil
	case "use_skill":
		h.used = append(h.used, a.Name)
		return nil, nil
	}
	return nil, fault.New(fault.Invalid, "there is no method %q", method)
}

var failures = map[string]error{
	"invalid":     fault.New(fault.Invalid, "the name %q is wrong", "a-b").WithHint("use letters"),
	"denied":      fault.New(fault.Denied, "that is not allowed"),
	"exhausted":   fault.New(fault.Exhausted, "the quota is used up").WithQuota("tokens_per_day"),
	"unavailable": fault.New(fault.Unavailable, "the server is down"),
	"internal":    fmt.Errorf("secret path: %w", io.ErrNoProgress),
}

// call is Python that calls the host by any method.
const call = `
import os, socket, sys
_call = save_skill.__self__._channel.call
`

func contains(s string, parts []string) error {
	for _, p := range parts {
		if not, ok := strings.CutPrefix(p, "!"); ok {
			if strings.Contains(s, not) {
				return fmt.Errorf("%q should not be in %s", not, s)
			}
		} else if !strings.Contains(s, p) {
			return fmt.Errorf("%q is not in %s", p, s)
		}
	}
	return nil
}

func answerTo(args []byte) ([]byte, error) {
	var q struct {
		Question string
		Schema   json.RawMessage
	}
	if err := json.Unmarshal(args, &q); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the arguments of ask are wrong")
	}
	value := q.Schema
	if string(value) == "null" && q.Question != "no" {
		value, _ = json.Marshal(q.Question)
	}
	return json.Marshal(map[string]any{"action": "accept", "value": value})
}
