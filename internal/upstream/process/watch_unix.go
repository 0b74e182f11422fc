//go:build unix

package process

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
)

// watcherScript reads the process group, then waits for the end of stdin, which is the
// death of the daemon. Without /proc it kills only the group.
const watcherScript = `trap '' HUP INT TERM
read -r group
read -r _
if [ -n "$group" ]; then
	kill -TERM "-$group"
	sleep 2
	kill -KILL "-$group"
fi
for env in /proc/[0-9]*/environ; do
	if grep -q "$1" "$env"; then
		pid=${env#/proc/}
		kill -KILL "${pid%/environ}"
	fi
done`

// watcher is a shell that detects the daemon's death as the end of its stdin. It is
// started before the program, so that the program is never unwatched.
type watcher struct {
	cmd *exec.Cmd
	in  *os.File
}

// startWatcher starts a watcher. Without a shell there is no watcher; a program still
// sees the end of its stdin.
func startWatcher(mark string, log *slog.Logger) *watcher {
	r, w, err := os.Pipe()
	if err != nil {
		log.Warn("cannot watch an upstream program; it may outlive a killed daemon", "error", err)
		return &watcher{}
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", watcherScript, "sandpiper-watcher", mark)
	cmd.Stdin, cmd.Env, cmd.Dir, cmd.SysProcAttr = r, []string{"PATH=/usr/bin:/bin"}, "/", procAttrs()
	if err := cmd.Start(); err != nil {
		log.Warn("cannot watch an upstream program; it may outlive a killed daemon", "error", err)
		w.Close()
		return &watcher{}
	}
	return &watcher{cmd: cmd, in: w}
}

// protect passes the process to the watcher.
func (w *watcher) protect(p *os.Process) {
	if w.cmd != nil {
		fmt.Fprintln(w.in, p.Pid)
	}
}

// stop stops the watcher itself.
func (w *watcher) stop() {
	if w.cmd == nil {
		return
	}
	_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
	w.in.Close()
	_ = w.cmd.Wait()
}
