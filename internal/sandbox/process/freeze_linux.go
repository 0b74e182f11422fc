package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// A sandbox is frozen in one of two ways. A cgroup v2 freezes all its processes at
// once. Elsewhere each process receives SIGSTOP until all are stopped. The freezer of
// cgroup v1 is not used: a process frozen by it does not die of SIGKILL, so a daemon
// that is killed would leave its sandboxes behind.

var errNotStopped = errors.New("sandbox: new processes are created faster than they can be stopped")

// freezeState records how a sandbox is frozen.
type freezeState struct {
	mu      sync.Mutex
	closed  bool        // no further freeze is allowed
	group   *group      // frozen; nil if there is none
	stopped map[int]int // process id -> pidfd of each process stopped by Freeze; processes that the code stopped are not included
}

// Freeze implements sandbox.Freezer.
func (x *instance) Freeze() error {
	s := &x.freeze
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || x.w.hasExited():
		return sandbox.ErrEnded
	case s.group != nil || s.stopped != nil:
		return nil
	case x.w.group != nil && x.b.groups.canFreeze():
		s.group = x.w.group
		return s.group.freeze(true)
	}
	s.stopped = map[int]int{}
	return s.stop(x.w)
}

// Thaw implements sandbox.Freezer.
func (x *instance) Thaw() error {
	s := &x.freeze
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || x.w.hasExited() {
		return sandbox.ErrEnded
	}
	if s.group != nil {
		g := s.group
		s.group = nil
		return g.freeze(false)
	}
	for _, fd := range s.stopped {
		_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) // a dead process needs none
	}
	s.drop()
	return nil
}

// close prevents further freezes, since the group may be reused. Stopped processes
// are killed without a SIGCONT.
func (s *freezeState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drop()
}

func (s *freezeState) drop() {
	for _, fd := range s.stopped {
		unix.Close(fd)
	}
	s.stopped = nil
}

const (
	// stopTimeout bounds the search for running processes. On a busy machine a process
	// stops only when it is next scheduled.
	stopTimeout = time.Second
	// stopPoll is the first pause between two scans; it grows.
	stopPoll = 200 * time.Microsecond
)

// stop stops all processes of w. A stopped process cannot fork, so eventually none is
// running; a second scan finds children created during the first. After stopTimeout
// it is enough that all were signalled: each stops before it runs again.
func (s *freezeState) stop(w *process) error {
	began, stopped := time.Now(), false
	for pause := stopPoll; ; pause = min(2*pause, 50*stopPoll) {
		running, unsignalled := s.signalRunning(w)
		switch late := time.Since(began) > stopTimeout; {
		case !running && stopped, late && !unsignalled:
			return nil
		case late:
			return errNotStopped
		}
		stopped = !running
		time.Sleep(pause)
	}
}

// signalRunning sends SIGSTOP to all running processes. unsignalled reports whether
// one had not been signalled before.
func (s *freezeState) signalRunning(w *process) (running, unsignalled bool) {
	for _, pid := range w.pids() {
		if isStopped(pid) {
			continue
		}
		running = true
		if fd, known := s.stopped[pid]; known {
			if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) == nil {
				continue
			}
			unix.Close(fd) // it died and its pid was reused
			delete(s.stopped, pid)
		}
		unsignalled = true
		s.signal(w, pid)
	}
	return running, unsignalled
}

// signal stops one process. It opens the pidfd and then reads the list again, so
// that a process that reuses the pid is not signalled: it is not in the list, and a
// signal to a dead process has no effect.
func (s *freezeState) signal(w *process, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has died
	}
	if !slices.Contains(w.pids(), pid) || unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		unix.Close(fd)
		return
	}
	s.stopped[pid] = fd
}

// isStopped reports whether all threads of a process are stopped or dead. A thread
// stops only after its current system call.
func isStopped(pid int) bool {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(tasks)
	return err != nil || !slices.ContainsFunc(threads, func(t os.DirEntry) bool {
		b, err := os.ReadFile(tasks + "/" + t.Name() + "/stat")
		end := bytes.LastIndexByte(b, ')') // end of the process name, which may contain any byte
		return err == nil && end >= 0 && end+2 < len(b) && bytes.IndexByte([]byte("TtZX"), b[end+2]) < 0
	})
}

// pids lists the processes of the worker.
func (w *process) pids() []int {
	if w.group != nil {
		return w.group.pids()
	}
	if pid := w.hostPID(); pid > 0 {
		return descendants(pid, nil)
	}
	return nil
}
