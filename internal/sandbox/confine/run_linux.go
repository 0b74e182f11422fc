package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Run runs the function that was given to Main under name on input, and returns its answer.
// The error is a *Failure if the process ended without one.
func Run(ctx context.Context, name string, limits Limits, input []byte) ([]byte, error) {
	limits = limits.withDefaults()
	late, cancel := context.WithTimeout(ctx, limits.Wall)
	defer cancel()
	out := &bounded{most: limits.OutputBytes, exceeded: cancel}
	errs := &bounded{most: 64 << 10, exceeded: func() {}}
	cmd := exec.CommandContext(late, "/proc/self/exe")
	cmd.Args = []string{name}
	cmd.Env = []string{
		"GOMAXPROCS=2", "GOGC=50", "GOTRACEBACK=none",
		memoryVariable + "=" + strconv.FormatInt(limits.MemoryBytes, 10),
		cpuVariable + "=" + strconv.FormatInt(int64((limits.CPU+time.Second-1)/time.Second), 10),
	}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), out, errs
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	err := runLocked(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.full():
		return nil, &Failure{TooLong, fmt.Sprintf("more than %d bytes", limits.OutputBytes)}
	case late.Err() != nil:
		return nil, &Failure{OutOfTime, "deadline"}
	case err == nil:
		return out.bytes(), nil
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, failure(ended, string(errs.bytes()))
	}
	return nil, err
}

// runLocked runs cmd on a thread that lives as long as the process, because the process is
// killed when the thread that started it ends.
func runLocked(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// failure classifies the end of a process.
func failure(ended *exec.ExitError, stderr string) error {
	f := &Failure{Crashed, fmt.Sprintf("%s: %.2000s", ended, strings.TrimSpace(stderr))}
	status, _ := ended.Sys().(syscall.WaitStatus)
	switch {
	case status.ExitStatus() == exitLockdown:
		return fmt.Errorf("the confined process could not be locked down: %.500s", stderr)
	case status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGXCPU):
		f.Reason = OutOfTime
	case slices.ContainsFunc(noMemory, func(s string) bool { return strings.Contains(stderr, s) }):
		f.Reason = OutOfMemory
	}
	return f
}

// noMemory lists parts of the messages of the runtime, also with cgo, and of the race detector.
var noMemory = []string{"out of memory", "cannot allocate memory", "stack exceeds", "pthread_create failed", "failed to allocate"}

// bounded is a buffer that keeps at most the first bytes, and calls exceeded for more.
type bounded struct {
	mu       sync.Mutex
	b        []byte
	most     int
	over     bool
	exceeded func()
}

func (w *bounded) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.b)+len(p) > w.most {
		w.over = true
		w.exceeded()
		return len(p), nil
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

func (w *bounded) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *bounded) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b
}
