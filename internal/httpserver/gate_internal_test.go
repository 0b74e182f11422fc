package httpserver

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A connection that takes the place of an evicted one gets its low number: it does
// not count as one more until the shortage is over.
func TestConnectionsDoNotGrowAfterAShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil, limits{descriptors: 100})
		g.all.open = 7
		for _, step := range []struct {
			after time.Duration
			fd    uintptr
			want  bool // one more may come without an eviction
		}{{0, 99, true}, {0, 100, false}, {0, 3, false}, {scarceFor, 3, true}, {0, 150, false}, {scarceFor - 1, 3, false}} {
			time.Sleep(step.after)
			if got := g.all.open < g.max(step.fd); got != step.want {
				t.Errorf("number %d: %t, want %t", step.fd, got, step.want)
			}
		}
	})
}

// While other parts of the process hold the descriptors, some connections are served.
func TestShortageLeavesSomeConnections(t *testing.T) {
	g := newGate(nil, limits{descriptors: 768})
	for open, want := range map[int]bool{0: true, 11: true, 12: false} {
		g.all.open, g.scarceUntil = open, time.Time{}
		if got := open < g.max(800); got != want {
			t.Errorf("one more than %d: %t, want %t", open, got, want)
		}
	}
}

// An evicted connection counts as leaving until its goroutine has closed it.
func TestEvictedConnectionsLeave(t *testing.T) {
	g := newGate(nil, limits{all: 1})
	dial := func() *conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { ours.Close(); theirs.Close() })
		return g.admit(ours)
	}
	first := dial()
	if second := dial(); second == nil || second.reserve || g.evicting != 1 || g.all.open != 1 {
		t.Fatalf("%+v, %d leave, %d are open", second, g.evicting, g.all.open)
	}
	for range 2 {
		_ = first.Close()
	}
	if g.evicting != 0 || g.all.open != 1 {
		t.Errorf("%d leave, %d are open", g.evicting, g.all.open)
	}
}
