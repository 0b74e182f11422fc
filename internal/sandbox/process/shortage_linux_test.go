package process

import (
	"errors"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// exhaust leaves this process no descriptor to open, until release.
func exhaust(t *testing.T) (release func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}

func TestReceiveReportsShortageOfDescriptors(t *testing.T) {
	ours, other, err := packetPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	c, err := net.FileConn(other)
	other.Close()
	if err != nil {
		t.Fatal(err)
	}
	theirs := c.(*net.UnixConn)
	defer theirs.Close()
	if err := send(theirs, zygoteAnswer{Op: "forked", ID: 7}, 0, 0); err != nil {
		t.Fatal(err)
	}
	release := exhaust(t)
	var a zygoteAnswer
	fds, err := receive(ours, &a)
	release()
	if len(fds) != 0 || !errors.Is(err, errShortage) || a.ID != 7 || !fault.NoDescriptors(err) {
		t.Errorf("%v, %v, %+v", fds, err, a)
	}
	if err := send(theirs, a, 0); err != nil {
		t.Fatal(err)
	}
	if fds, err = receive(ours, &a); err != nil || len(fds) != 1 {
		t.Errorf("after it: %v, %v", fds, err)
	}
	closeAll(fds)
}

// A shortage of descriptors fails what needs some, and nothing after it.
func TestBackendSurvivesAShortageOfDescriptors(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	live, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	release := exhaust(t)
	for range 3 {
		box, err := b.Open(t.Context(), h.spec("b"))
		if err == nil { // by a worker that was there
			box.Close()
		}
	}
	release()
	box, err := b.Open(t.Context(), h.spec("c"))
	if err != nil {
		t.Fatalf("after the shortage: %v", err)
	}
	defer box.Close()
	for _, s := range []sandbox.Sandbox{live, box} {
		if out, err := s.Run(t.Context(), sandbox.Program{Code: "1+1"}, sandbox.NoHost{}); err != nil || out.Status != sandbox.Completed {
			t.Errorf("%+v %v", out, err)
		}
	}
}
