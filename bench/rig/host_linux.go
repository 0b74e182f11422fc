package rig

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeperName is how the process is called that owns a sandbox's namespaces.
const keeperName = "sandpiper-sandbox-keeper"

// Tree are the processes of a daemon, itself first. One that is gone before it
// was looked at is not there.
func Tree(daemon int) []Process {
	return tree(daemon, Part("daemon"))
}

func tree(pid int, part Part) []Process {
	all := []Process{{PID: pid, Part: part}}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		children, _ := os.ReadFile(t)
		for child := range strings.FieldsSeq(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, tree(n, below(pid, part, n))...)
			}
		}
	}
	return all
}

// below is the part of a child. A worker has a pid namespace of its own; when its
// zygote ends it becomes the keeper's.
func below(pid int, part Part, child int) Part {
	switch {
	case part == "daemon" && bytes.HasPrefix(commandLine(child), []byte(keeperName)):
		return "keeper"
	case part == "keeper" && namespaces(child) <= namespaces(pid):
		return "zygote"
	}
	return "worker"
}

// namespaces counts the pid namespaces, one within the other, that a process is in.
func namespaces(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(ids))
		}
	}
	return 0
}

func commandLine(pid int) []byte {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return line
}

// PSS is the memory of a process in bytes, where what several share is divided
// among them; 0 if it may not be known.
func PSS(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// Descriptors counts the open files of a process; 0 if they may not be known.
func Descriptors(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(fds)
}

// Mounts counts the mounts that a process sees; 0 if they may not be known.
func Mounts(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	return bytes.Count(text, []byte("\n"))
}

// Disk is how many bytes a directory takes on disk.
func Disk(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away while we looked
		}
		if fi, err := d.Info(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}

// Groups are the control groups that belong to a daemon of one of these names,
// and those in them.
func Groups(names []string) (found []string) {
	for _, mount := range groupMounts() {
		_ = filepath.WalkDir(mount, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			if slices.Contains(names, d.Name()) || slices.Contains(names, filepath.Base(filepath.Dir(path))) {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}

// groupMounts are the hierarchies that a sandbox may have groups in.
func groupMounts() (dirs []string) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		field := strings.Fields(s.Text())
		if len(field) < 4 {
			continue
		}
		options := strings.Split(field[3], ",")
		if field[2] == "cgroup2" || field[2] == "cgroup" && (slices.Contains(options, "memory") || slices.Contains(options, "pids")) {
			dirs = append(dirs, field[1])
		}
	}
	return dirs
}

// Orphans are sandbox keepers whose daemon is gone.
func Orphans() (all []Process) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if bytes.HasPrefix(commandLine(pid), []byte(keeperName)) && parent(pid) <= 1 {
			all = append(all, Process{pid, "keeper"})
		}
	}
	return all
}

func parent(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if at := bytes.LastIndexByte(text, ')'); at > 0 {
		if f := strings.Fields(string(text[at+1:])); len(f) > 1 {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// Watch are processes whose end can be waited for, whatever becomes of their
// numbers.
type Watch struct{ fds map[int]int } // by pid

// NewWatch begins to watch the processes that are still there.
func NewWatch(all []Process) *Watch {
	w := &Watch{fds: make(map[int]int)}
	for _, p := range all {
		if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
			w.fds[p.PID] = fd
		}
	}
	return w
}

// Ended waits until all are gone, but not longer than most, and returns those
// that are not. The watch is over then.
func (w *Watch) Ended(ctx context.Context, most time.Duration) (left []int) {
	until := time.Now().Add(most)
	for pid, fd := range w.fds {
		for !dead(fd, 100) && ctx.Err() == nil && time.Now().Before(until) {
		}
		if !dead(fd, 0) {
			left = append(left, pid)
		}
		_ = unix.Close(fd)
	}
	w.fds = nil
	return left
}

func dead(pidfd, milliseconds int) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, milliseconds)
	return n == 1
}

// diesWithUs has the kernel kill c if this process dies first.
func diesWithUs(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
}

func interrupt(c *exec.Cmd) { _ = c.Process.Signal(unix.SIGTERM) }
