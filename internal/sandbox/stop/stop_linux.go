package stop

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Stopped are processes that All has stopped, without those that were stopped before. A nil
// Stopped is empty.
type Stopped struct {
	pids func() []int
	fds  map[int]int // process id -> pidfd
}

// Continue continues them.
func (s *Stopped) Continue() {
	if s == nil {
		return
	}
	for _, fd := range s.fds {
		_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) // a dead process needs none
	}
	s.Close()
}

// Close leaves them stopped. A stopped process can be killed without a SIGCONT.
func (s *Stopped) Close() {
	if s == nil {
		return
	}
	for _, fd := range s.fds {
		unix.Close(fd)
	}
	s.fds = nil
}

const (
	// stopTimeout bounds the search for running processes. On a busy machine a process
	// stops only when it is next scheduled.
	stopTimeout = time.Second
	// stopPoll is the first pause between two scans; it grows.
	stopPoll = 200 * time.Microsecond
)

// errNotStopped means that new processes are created faster than they can be stopped.
var errNotStopped = errors.New("sandbox: new processes are created faster than they can be stopped")

// All stops all processes that pids lists. After an error some still run. A stopped process cannot fork, so eventually none is
// running; a second scan finds children created during the first. After stopTimeout
// it is enough that all were signalled: each stops before it runs again.
func All(pids func() []int) (*Stopped, error) {
	s := &Stopped{pids: pids, fds: map[int]int{}}
	began, stopped := time.Now(), false
	for pause := stopPoll; ; pause = min(2*pause, 50*stopPoll) {
		running, unsignalled := s.signalRunning()
		switch late := time.Since(began) > stopTimeout; {
		case !running && stopped, late && !unsignalled:
			return s, nil
		case late:
			return s, errNotStopped
		}
		stopped = !running
		time.Sleep(pause)
	}
}

// signalRunning sends SIGSTOP to all running processes. unsignalled reports whether
// one had not been signalled before.
func (s *Stopped) signalRunning() (running, unsignalled bool) {
	for _, pid := range s.pids() {
		if isStopped(pid) {
			continue
		}
		running = true
		if fd, known := s.fds[pid]; known {
			if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) == nil {
				continue
			}
			unix.Close(fd) // it died and its pid was reused
			delete(s.fds, pid)
		}
		unsignalled = true
		s.signal(pid)
	}
	return running, unsignalled
}

// signal stops one process. It opens the pidfd and then reads the list again, so
// that a process that reuses the pid is not signalled: it is not in the list, and a
// signal to a dead process has no effect.
func (s *Stopped) signal(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has died
	}
	if !slices.Contains(s.pids(), pid) || unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		unix.Close(fd)
		return
	}
	s.fds[pid] = fd
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
