//go:build unix

package process

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
)

// script reads the group's number, then waits for the end of its input, which is
// that of the daemon. Where there is no /proc only the group is ended.
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

// watcher is a shell that waits for the daemon's death, which it sees as the end
// of its stdin. It was started before the program, so that no moment is left in
// which the program has nobody who would end it.
type watcher struct {
	cmd *exec.Cmd
	in  *os.File
}

// watch starts a watcher. Without a shell there is none: a program then still
// sees the end of its stdin.
func startWatcher(mark string, log *slog.Logger) *watcher {
	r, w, err := os.Pipe()
	if err != nil {
		log.Warn("no watcher for an upstream server", "error", err)
		return &watcher{}
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", watcherScript, "sandpiper-watcher", mark)
	cmd.Stdin, cmd.Env, cmd.Dir, cmd.SysProcAttr = r, []string{"PATH=/usr/bin:/bin"}, "/", procAttrs()
	if err := cmd.Start(); err != nil {
		log.Warn("no watcher for an upstream server", "error", err)
		w.Close()
		return &watcher{}
	}
	return &watcher{cmd: cmd, in: w}
}

// guard tells the watcher whom to end.
func (w *watcher) protect(p *os.Process) {
	if w.cmd != nil {
		fmt.Fprintln(w.in, p.Pid)
	}
}

// dismiss ends the watcher itself.
func (w *watcher) stop() {
	if w.cmd == nil {
		return
	}
	_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
	w.in.Close()
	_ = w.cmd.Wait()
}
