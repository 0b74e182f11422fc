//go:build unix

package upstream_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// A stopped program does not answer. It is killed after two timeouts and a ping, and a later call
// restarts it.
func TestHungProgramIsRestarted(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel() // takes seconds
	server := brokenServer(t, "good")
	server.Timeout = 2 * time.Second
	s := open(t, upstream.Config{Servers: []upstream.Server{server}, RetryDelay: 3 * time.Second})
	until(t, "the program to serve", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello")
		return err == nil
	})
	hung := state(s, "good").PID
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(hung, syscall.SIGKILL) // if the test fails earlier
	timeouts := 0
	until(t, "the program to be ended", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello") // it may answer before all its threads have stopped
		if fault.KindOf(err) == fault.Exhausted && err != nil {
			timeouts++
		}
		return state(s, "good").State == upstream.Failed
	})
	if timeouts < 2 {
		t.Errorf("the program was killed after %d timeouts", timeouts)
	}
	if st := state(s, "good"); st.Reason != `server "good" responded to neither 2 calls nor a ping, and was stopped` ||
		time.Until(st.Retry) > 3*time.Second {
		t.Errorf("%+v", st)
	}
	until(t, "the program to serve again", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello")
		return err == nil
	})
	if pid := state(s, "good").PID; pid == hung {
		t.Errorf("process %d was not restarted", pid)
	}
}

// A program that answers a ping is not killed, even if many calls of a tool time out.
func TestSlowToolDoesNotRestartProgram(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel() // takes seconds
	server := brokenServer(t, "good")
	server.Timeout = time.Second
	s := open(t, upstream.Config{Servers: []upstream.Server{server}})
	until(t, "the program to serve", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello")
		return err == nil
	})
	pid := state(s, "good").PID
	for range 5 {
		_, err := call(t.Context(), s, "good", "hang", "")
		wantError(t, err, fault.Exhausted, "did not respond within 1s")
	}
	until(t, "the program to serve", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello")
		return err == nil
	})
	if st := state(s, "good"); st.PID != pid {
		t.Errorf("the process was %d, now %+v", pid, st)
	}
}
