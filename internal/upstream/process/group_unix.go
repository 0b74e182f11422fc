//go:build unix

package process

import "syscall"

// attributes put a program in a process group of its own. There is no
// Pdeathsig: it tells of the death of a thread, which the Go runtime may end at
// any time, and reaches only the program itself.
func procAttrs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ask sends SIGTERM to the program and its group.
func (c *Child) terminate() { _ = syscall.Kill(-c.PID(), syscall.SIGTERM) }

// sweep kills the group, and then who left it.
func (c *Child) killAll() {
	_ = syscall.Kill(-c.PID(), syscall.SIGKILL)
	for range 3 { // who was killed while it started another leaves that one
		pids := findMarked(c.marker)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) == 0 {
			return
		}
	}
}
