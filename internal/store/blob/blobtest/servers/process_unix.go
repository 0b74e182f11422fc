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

// watch runs a program until it ends or the standard input does, which happens when this process has died.
const watch = `exec 3<&0; "$@" 3<&- & server=$!; { cat <&3 >/dev/null; kill -9 $server; } & wait $server`

// prepare gives a server a process group, with the processes that it starts, and a shell that ends it with this process.
func prepare(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if _, err := cmd.StdinPipe(); err != nil { // Wait closes it
		t.Fatal(err)
	}
	cmd.Args = append([]string{"sh", "-c", watch, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

func stop(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
