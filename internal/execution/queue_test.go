package execution_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func TestTenantCannotHoldAllSlots(t *testing.T) {
	alice, bob := newHome(t, "alice"), newHome(t, "bob")
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{Concurrent: 8, PerOwner: 6, Wait: time.Hour})
		var flood []*execution.Execution
		for range 12 {
			flood = append(flood, s.start(t, t.Context(), alice,
				execution.Request{Code: "sleep 300s\nresult 1", Timeout: 300 * time.Second}))
		}
		synctest.Wait()
		began := time.Now()
		if r := s.run(t, bob, "result 2"); !r.Success() || time.Since(began) > time.Second {
			t.Errorf("after %v: %+v", time.Since(began), r)
		}
		time.Sleep(10 * time.Second)
		var messages []string
		for _, x := range flood {
			if p, n := execution.Latest(x); n > 0 {
				messages = append(messages, p.Message)
			}
		}
		slices.Sort(messages)
		if len(messages) != 6 || !strings.HasPrefix(messages[5], "waiting for a free slot: expected to start in ") ||
			!strings.HasSuffix(messages[5], ", after 5 other executions") {
			t.Errorf("%q", messages)
		}
		for _, x := range flood {
			done(t, x)
		}
	})
}

func TestCallStartsBeforeWaitingBackgroundExecutions(t *testing.T) {
	t.Parallel()
	s, h := newRestarts(t).restart(t, nil)
	var leave func()
	for range (admit.Config{}).WithDefaults().Concurrent {
		var err error
		if leave, err = s.queue.Acquire(t.Context(), "holder", nil); err != nil {
			t.Fatal(err)
		}
	}
	awaitWaiting := func(n int) {
		for s.queue.Load().Waiting != n {
			time.Sleep(time.Millisecond)
		}
	}
	id := dispatch(t, s, h, "sleep 1h", journal.ReportOnRestart)
	var all sync.WaitGroup
	all.Go(func() { runDue(t, s, h) })
	awaitWaiting(1)
	x := s.start(t, t.Context(), h, execution.Request{Code: "result 1"})
	awaitWaiting(2)
	leave()
	if r := done(t, x); !r.Success() {
		t.Errorf("%+v", r)
	}
	if err := s.Cancel(t.Context(), h, id); err != nil {
		t.Error(err)
	}
	all.Wait()
}
