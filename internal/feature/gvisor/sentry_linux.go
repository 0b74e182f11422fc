package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// sentry is the process of the guest's kernel. A nil sentry has not started.
type sentry struct {
	pid    int
	pidfd  *os.File
	memfd  string // the memory of the guest: of processes, files in tmpfs and pages of files
	status string
}

// findSentry finds the sentry among the descendants of runsc.
func findSentry(runsc int) (*sentry, error) {
	for _, pid := range process.Descendants(runsc) {
		proc := "/proc/" + strconv.Itoa(pid)
		line, _ := os.ReadFile(proc + "/cmdline")
		if !bytes.HasPrefix(line, []byte("runsc-sandbox\x00")) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
		if err != nil {
			return nil, fmt.Errorf("the process of the sentry: %w", err)
		}
		s := &sentry{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd"), status: proc + "/status"}
		if s.memfd = findMemory(proc + "/fd"); s.memfd == "" || s.hasExited() { // then it may be another process
			s.close()
			return nil, errors.New("the memory of the sandbox cannot be measured: its sentry has no readable runsc-memory")
		}
		return s, nil
	}
	return nil, errors.New("runsc has no process runsc-sandbox")
}

// findMemory returns the link to the guest's memory in a directory of descriptors.
func findMemory(dir string) string {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		link := filepath.Join(dir, e.Name())
		if target, _ := os.Readlink(link); strings.HasPrefix(target, "/memfd:runsc-memory") {
			return link
		}
	}
	return ""
}

// memory returns the memory of the guest, including that of its kernel; 0 if it has ended.
func (s *sentry) memory() int64 {
	var st unix.Stat_t
	if unix.Stat(s.memfd, &st) != nil {
		return 0
	}
	own := int64(0)
	status, _ := os.ReadFile(s.status)
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kB, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			own = kB << 10
		}
	}
	return st.Blocks*512 + own
}

// signal sends a signal to the sentry itself.
func (s *sentry) signal(sig unix.Signal) error {
	if s == nil {
		return unix.ESRCH
	}
	c, err := s.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	if failed := c.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); failed != nil {
		return failed
	}
	return err
}

func (s *sentry) kill() { _ = s.signal(unix.SIGKILL) }

func (s *sentry) hasExited() bool { return s.signal(0) != nil }

// wait waits until the sentry has ended, which its pidfd reports.
func (s *sentry) wait() {
	if s == nil {
		return
	}
	c, err := s.pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	})
}

// cpuTime returns the processor time that the sentry and the processes of the code have used.
func (s *sentry) cpuTime() time.Duration { return process.CPUTime(s.pid) }

func (s *sentry) close() {
	if s != nil {
		s.pidfd.Close()
	}
}
