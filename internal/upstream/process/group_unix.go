//go:build unix

package process

import "syscall"

// procAttrs puts a program in its own process group. Pdeathsig is not used: it reports
// the death of a thread, which the Go runtime may end at any time, and signals only the
// program itself.
func procAttrs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// terminate sends SIGTERM to the program and its group.
func (c *Child) terminate() { _ = syscall.Kill(-c.PID(), syscall.SIGTERM) }

// killAll kills the group, then the processes that left it.
func (c *Child) killAll() {
	_ = syscall.Kill(-c.PID(), syscall.SIGKILL)
	for range 3 { // a process may fork while it is killed
		pids := findMarked(c.marker)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) == 0 {
			return
		}
	}
}
