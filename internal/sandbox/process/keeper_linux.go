package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

// keeperHandle is the daemon's side of its keeper.
type keeperHandle struct {
	mu   sync.Mutex // one request at a time
	conn *net.UnixConn
	cmd  *exec.Cmd
	done chan struct{} // closed after Wait returns
	log  *tail
}

// setupError is an error of the host during setup.
type setupError struct {
	step string // "namespaces", "setup", "zygote"
	err  error
}

func (e *setupError) Error() string { return "sandbox " + e.step + ": " + e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

// startKeeper starts the keeper in new namespaces and waits until it has built the
// private root.
func startKeeper(init keeper.Init, ids idMaps, timeout time.Duration, log *slog.Logger) (*keeperHandle, error) {
	conn, other, err := packetPair()
	if err != nil {
		return nil, err
	}
	defer other.Close()
	k := &keeperHandle{conn: conn, done: make(chan struct{}), log: &tail{}}
	k.cmd = &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{keeper.Name},
		Env:         []string{"GOMAXPROCS=1", "GOGC=50"},
		Dir:         "/",
		Stderr:      k.log,
		ExtraFiles:  []*os.File{other},
		WaitDelay:   time.Second,
		SysProcAttr: keeperAttr(init.Disabled, ids),
	}
	if err := k.cmd.Start(); err != nil {
		conn.Close()
		return nil, &setupError{"namespaces", err}
	}
	go func() {
		err := k.cmd.Wait()
		log.Debug("sandbox keeper ended", "error", err)
		close(k.done)
	}()
	if err := k.begin(init, timeout); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func keeperAttr(off []string, ids idMaps) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		UidMappings:                ids.uid,
		GidMappings:                ids.gid,
		GidMappingsEnableSetgroups: ids.tenants > 0,
		Pdeathsig:                  0, // it exits when the control socket closes; a death signal would depend on the starting thread
	}
	if ids.tenants > 0 {
		a.Credential = &syscall.Credential{Uid: 0, Gid: 0} // and no supplementary groups
	}
	for name, flag := range map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		if !contains(off, name) {
			a.Cloneflags |= flag
		}
	}
	a.Cloneflags |= unix.CLONE_NEWNS
	if contains(off, "user") {
		a.UidMappings, a.GidMappings, a.GidMappingsEnableSetgroups = nil, nil, false
	}
	return a
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (k *keeperHandle) begin(init keeper.Init, timeout time.Duration) error {
	defer k.conn.SetDeadline(time.Time{})
	_ = k.conn.SetDeadline(time.Now().Add(timeout))
	if err := send(k.conn, init); err != nil {
		return &setupError{"namespaces", err}
	}
	var a keeper.Answer
	if _, err := receive(k.conn, &a); err != nil {
		return &setupError{"setup", fmt.Errorf("%w %s", err, k.log)}
	}
	if a.Error != "" {
		return failedStep(a)
	}
	return nil
}

// failedStep returns the error of an answer.
func failedStep(a keeper.Answer) error {
	err := errors.New(a.Error)
	switch {
	case a.Step == "zygote" && a.Errno == unix.EAGAIN:
		err = &fs.PathError{Op: "fork/exec", Path: keeper.Python, Err: a.Errno}
	case a.Errno != 0:
		err = fmt.Errorf("%s: %w", strings.TrimSuffix(a.Error, ": "+a.Errno.Error()), a.Errno)
	}
	return &setupError{a.Step, err}
}

var errKeeperGone = errors.New("the sandbox keeper has ended")

// killIfLate kills a keeper that did not answer in time, and with it its whole pid
// namespace, so that a new keeper can replace it.
func (k *keeperHandle) killIfLate(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = k.cmd.Process.Kill()
		<-k.done
	}
}

// request sends one request and returns the descriptors in the answer.
func (k *keeperHandle) request(r keeper.Request, fds ...int) ([]int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.conn.SetDeadline(time.Now().Add(answerTimeout))
	if err := send(k.conn, r, fds...); err != nil {
		k.killIfLate(err)
		return nil, fmt.Errorf("%w: %w", errKeeperGone, err)
	}
	var a keeper.Answer
	out, err := receive(k.conn, &a)
	if errors.Is(err, errShortage) {
		return nil, err
	}
	if err != nil {
		k.killIfLate(err)
		return nil, fmt.Errorf("%w: %w", errKeeperGone, err)
	}
	if a.Error != "" {
		closeAll(out)
		return nil, failedStep(a)
	}
	return out, nil
}

// bind returns a detached mount for each of mounts.
func (k *keeperHandle) bind(mounts []keeper.Mount) ([]int, error) {
	fds, err := k.request(keeper.Request{Op: "bind", Mount: mounts})
	if err == nil && len(fds) != len(mounts) {
		closeAll(fds)
		return nil, errors.New("the sandbox keeper returned the wrong number of mounts")
	}
	return fds, err
}

func (k *keeperHandle) dead() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// close ends the keeper and everything in its pid namespace.
func (k *keeperHandle) close() {
	k.conn.Close()
	select {
	case <-k.done:
	case <-time.After(2 * time.Second):
		_ = k.cmd.Process.Kill()
		<-k.done
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if excess := len(t.b) - 8<<10; excess > 0 {
		t.b = append(t.b[:0], t.b[excess:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.b, nil)))
}
