package process

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Workers survive the replacement of their zygote. Then only the keeper can wait for them.
func TestOrphanedWorkersLeaveNoZombies(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	x, done := h.start(b, "a", busy)
	zygote, worker := b.zygoteNow(), x.w.pidfd
	zygote.signal(t, unix.SIGKILL)
	<-zygote.ended
	if out := h.run(b, h.spec("b"), "2+2"); string(out.Result) != "4" { // by another zygote
		t.Errorf("after it: %+v", out)
	}
	watched, err := unix.FcntlInt(worker.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watched)
	x.w.kill()
	<-done
	x.Close()
	for until := time.Now().Add(20 * time.Second); zombies(b.currentKeeper().cmd.Process.Pid) > 0; {
		if time.Now().After(until) {
			t.Fatalf("the keeper has %d zombie children", zombies(b.currentKeeper().cmd.Process.Pid))
		}
		_, _ = unix.Poll(nil, 10)
	}
	if err := unix.PidfdSendSignal(watched, 0, nil, 0); err != unix.ESRCH {
		t.Errorf("the worker that was killed: %v, want %v", err, unix.ESRCH)
	}
}

// zombies counts the children of pid that have ended and are still there.
func zombies(pid int) (n int) {
	for _, child := range descendants(pid, nil) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		var id int
		var name string
		var state rune
		if _, scanned := fmt.Sscanf(string(text), "%d %s %c", &id, &name, &state); err == nil && scanned == nil && state == 'Z' {
			n++
		}
	}
	return n
}
