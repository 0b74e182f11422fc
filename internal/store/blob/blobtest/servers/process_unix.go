//go:build unix

package servers

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// nobody is the number of the user nobody and of its group on Debian.
const nobody = 65534

// asOrdinaryUser makes a command of root's process one of the user nobody, with a directory of its own.
func asOrdinaryUser(t testing.TB, cmd *exec.Cmd, dir string) {
	t.Helper()
	cmd.Dir = dir
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// prepare gives a server a process group, with the processes that it starts.
func prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

func stop(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
