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
)

// A sandbox stands still in one of two ways. A cgroup of version 2 stops
// everything in it at once. Elsewhere each process gets SIGSTOP, until none is
// found that is not stopped. The freezer of version 1 is not used: what it holds
// does not even die of SIGKILL, so that a daemon that is killed would leave its
// sandboxes behind for ever.

var (
	errGone     = errors.New("sandbox: the interpreter has died")
	errRestless = errors.New("sandbox: new processes keep coming, and cannot all be stopped")
)

// stillness is how a box stands still, if it does.
type stillness struct {
	mu     sync.Mutex
	closed bool        // it never will again
	group  *group      // frozen; nil if there is none
	held   map[int]int // pidfd of each process that was stopped, by process id; one that the code had stopped itself is not among them
}

// Freeze implements sandbox.Freezer.
func (x *box) Freeze() error {
	s := &x.still
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || x.w.gone():
		return errGone
	case s.group != nil || s.held != nil:
		return nil
	case x.w.group != nil && x.b.groups.freezes():
		s.group = x.w.group
		return s.group.freeze(true)
	}
	s.held = map[int]int{}
	return s.stop(x.w)
}

// Thaw implements sandbox.Freezer.
func (x *box) Thaw() error {
	s := &x.still
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || x.w.gone() {
		return errGone
	}
	if s.group != nil {
		g := s.group
		s.group = nil
		return g.freeze(false)
	}
	for _, fd := range s.held {
		_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) // one that died needs none
	}
	s.drop()
	return nil
}

// close keeps the box from being frozen once its group may be another's. What is
// stopped dies as it is.
func (s *stillness) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drop()
}

func (s *stillness) drop() {
	for _, fd := range s.held {
		unix.Close(fd)
	}
	s.held = nil
}

const (
	// haltTime bounds the search for processes that are not stopped. On a busy
	// machine one that was told to may wait for a processor before it does.
	haltTime = time.Second
	// haltPause lies between two looks at first, and grows.
	haltPause = 200 * time.Microsecond
)

// stop stops all processes of w. A stopped process has no children any more, so
// sooner or later there is none left that moves; a second look finds children that
// came during the first. After haltTime it is enough that all were told: each stops
// before it does anything more.
func (s *stillness) stop(w *process) error {
	began, still := time.Now(), false
	for pause := haltPause; ; pause = min(2*pause, 50*haltPause) {
		moving, untold := s.look(w)
		switch late := time.Since(began) > haltTime; {
		case !moving && still, late && !untold:
			return nil
		case late:
			return errRestless
		}
		still = !moving
		time.Sleep(pause)
	}
}

// look tells all that move to stop.
func (s *stillness) look(w *process) (moving, untold bool) {
	for _, pid := range w.members() {
		if rests(pid) {
			continue
		}
		moving = true
		if fd, told := s.held[pid]; told {
			if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) == nil {
				continue
			}
			unix.Close(fd) // it died, and another has its number
			delete(s.held, pid)
		}
		untold = true
		s.signal(w, pid)
	}
	return moving, untold
}

// signal stops one process. The pidfd is opened first and the list is read
// again after it, so that whoever got a dead one's number is not hit: a stranger
// is not in the list, and to a dead process nothing is sent.
func (s *stillness) signal(w *process, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has died
	}
	if !slices.Contains(w.members(), pid) || unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		unix.Close(fd)
		return
	}
	s.held[pid] = fd
}

// rests reports whether a process is stopped or dead: all of its threads, each of
// which goes on to the end of what the kernel does for it.
func rests(pid int) bool {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(tasks)
	return err != nil || !slices.ContainsFunc(threads, func(t os.DirEntry) bool {
		b, err := os.ReadFile(tasks + "/" + t.Name() + "/stat")
		end := bytes.LastIndexByte(b, ')') // of its name, which may hold anything
		return err == nil && end >= 0 && end+2 < len(b) && bytes.IndexByte([]byte("TtZX"), b[end+2]) < 0
	})
}

// members lists the processes of the worker.
func (w *process) members() []int {
	if w.group != nil {
		return w.group.pids()
	}
	if pid := w.hostPID(); pid > 0 {
		return family(pid, nil)
	}
	return nil
}
