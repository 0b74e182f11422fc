//go:build unix

package upstream_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// A program that is stopped answers nothing: it is ended after two calls and a ping,
// and a later call starts it again.
func TestAHungProgramIsRestarted(t *testing.T) {
	t.Parallel() // it takes seconds
	server := doing(t, "good")
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
	defer syscall.Kill(hung, syscall.SIGKILL) // where the test fails before
	timeouts := 0
	until(t, "the program to be ended", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello") // it may answer before all its threads have stopped
		if fault.KindOf(err) == fault.Exhausted && err != nil {
			timeouts++
		}
		return state(s, "good").State == upstream.Failed
	})
	if timeouts < 2 {
		t.Errorf("it was ended after %d timeouts", timeouts)
	}
	if st := state(s, "good"); st.Reason != `server "good" responded to neither 2 calls nor a ping, and was stopped` || time.Until(st.Retry) > 3*time.Second {
		t.Errorf("%+v", st)
	}
	until(t, "the program to serve again", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello")
		return err == nil
	})
	if pid := state(s, "good").PID; pid == hung {
		t.Errorf("it is the same process %d", pid)
	}
}

// A program that answers a ping is left alone, however many calls of a tool time out.
func TestASlowToolDoesNotRestartItsProgram(t *testing.T) {
	t.Parallel() // it takes seconds
	server := doing(t, "good")
	server.Timeout = time.Second
	s := open(t, upstream.Config{Servers: []upstream.Server{server}})
	until(t, "the program to serve", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello")
		return err == nil
	})
	pid := state(s, "good").PID
	for range 5 {
		_, err := call(t.Context(), s, "good", "hang", "")
		says(t, err, fault.Exhausted, "did not respond within 1s")
	}
	until(t, "the program to serve", func() bool {
		_, err := call(t.Context(), s, "good", "echo", "hello")
		return err == nil
	})
	if st := state(s, "good"); st.PID != pid {
		t.Errorf("it was %d, and is %+v", pid, st)
	}
}
