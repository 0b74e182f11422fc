package host

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// CPU returns the processor time that a process and its children that have ended used, or 0
// if it is not readable.
func CPU(pid int) (used time.Duration) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for i := 11; i < 15 && i < len(f); i++ { // utime, stime, cutime and cstime, in ticks of 10 ms
		n, _ := strconv.Atoi(f[i])
		used += time.Duration(n) * 10 * time.Millisecond
	}
	return used
}

// Descriptors returns the number of open files of a process, or 0 if it is not readable.
func Descriptors(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(fds)
}

// Mounts returns the number of mounts of a process, or 0 if it is not readable.
func Mounts(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	return bytes.Count(text, []byte("\n"))
}

// Disk returns the disk space of a directory in bytes.
func Disk(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed during the walk
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

// Groups returns the cgroups of the daemons with these names, and their
// children.
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

// groupMounts returns the cgroup hierarchies that a sandbox may use.
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

// Orphans returns the sandbox keepers whose daemon has exited.
func Orphans() (all []rig.Process) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if rig.IsKeeper(pid) && parent(pid) <= 1 {
			all = append(all, rig.Process{PID: pid, Part: "keeper"})
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

// Watch waits for the exit of processes. It holds pidfds, so that reuse of process IDs
// has no effect.
type Watch struct{ fds map[int]int } // by pid

// NewWatch watches the processes that are still running.
func NewWatch(all []rig.Process) *Watch {
	w := &Watch{fds: make(map[int]int)}
	for _, p := range all {
		if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
			w.fds[p.PID] = fd
		}
	}
	return w
}

// WaitExited waits up to most for the processes to exit, and returns the IDs of those
// that did not. The Watch cannot be used afterwards.
func (w *Watch) WaitExited(ctx context.Context, most time.Duration) (left []int) {
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
