package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Backends whose worker has no zygote use the following.

// WorkerFilter returns the seccomp program of a worker.
func WorkerFilter() []byte { return filter(workerRules()) }

// Descendants returns pid and all its descendants.
func Descendants(pid int) []int { return descendants(pid, nil) }

// Cgroups gives each sandbox a cgroup, as for workers.
type Cgroups struct{ all *cgroups }

// OpenCgroups finds the cgroups that this daemon may create, below a group of that name. There may
// be none.
func OpenCgroups(name string) (*Cgroups, error) {
	all, err := openCgroups(name)
	return &Cgroups{all}, err
}

// RemoveCgroups removes the cgroups of a daemon that has died.
func RemoveCgroups(name string) { removeGroupsOf(name) }

// Version returns the version of the cgroups, or 0 and why there are none.
func (c *Cgroups) Version() (version int, why string) { return c.all.version, c.all.why }

// Close removes the cgroups.
func (c *Cgroups) Close() { c.all.close() }

// Cgroup is the cgroup of one sandbox. A nil Cgroup limits nothing.
type Cgroup struct {
	*group
	all *cgroups
}

// Take returns a cgroup with limits, or nil if there are none.
func (c *Cgroups) Take(memory int64, processes int) (*Cgroup, error) {
	g, err := c.all.take()
	if g == nil || err != nil {
		return nil, err
	}
	if err := c.all.limit(g, memory, processes); err != nil {
		c.all.put(g)
		return nil, err
	}
	c.all.start(g)
	return &Cgroup{g, c.all}, nil
}

// Put returns a cgroup whose processes have been killed, when they have ended.
func (c *Cgroup) Put() {
	if c == nil {
		return
	}
	for end := time.Now().Add(time.Second); len(c.pids()) > 0 && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
	c.all.put(c.group)
}

// Killed reports whether the kernel has killed a process of the cgroup for memory.
func (c *Cgroup) Killed() bool { return c != nil && c.killed() }

// Start starts cmd in the cgroup. The calling goroutine must be locked to its thread, which it
// moves there and back in version 1.
func (c *Cgroup) Start(cmd *exec.Cmd) error {
	switch {
	case c == nil:
		return cmd.Start()
	case c.all.version == 2:
		dir, err := os.Open(c.dirs[0])
		if err != nil {
			return err
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		return cmd.Start()
	}
	back, err := threadGroups(c.all.bases)
	defer closeAll(back)
	if err == nil {
		err = joinAll(c.join)
	}
	if err == nil {
		err = cmd.Start()
	}
	return errors.Join(err, joinAll(back))
}

// threadGroups returns the files that the calling thread writes to, to return to its present
// groups, which are the parents of bases.
func threadGroups(bases []string) ([]int, error) {
	var files []int
	for _, base := range bases {
		fd, err := unix.Open(filepath.Join(filepath.Dir(base), "tasks"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return files, err
		}
		files = append(files, fd)
	}
	return files, nil
}

// joinAll moves the calling thread to the groups of version 1 whose files are open.
func joinAll(files []int) error {
	for _, fd := range files {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return fmt.Errorf("joining a cgroup: %w", err)
		}
	}
	return nil
}
