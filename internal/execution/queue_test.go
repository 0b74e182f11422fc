package execution_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func TestTenantCannotHoldAllSlots(t *testing.T) {
	alice, bob := newHome(t, "alice"), newHome(t, "bob")
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{Concurrent: 8, PerOwner: 6, Wait: time.Hour})
		var flood []*execution.Execution
		for range 12 {
			flood = append(flood, s.start(t, t.Context(), alice, execution.Request{Code: "sleep 300s\nresult 1", Timeout: 300 * time.Second}))
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
		if len(messages) != 6 || !strings.HasPrefix(messages[5], "waiting for a free slot: expected to start in ") || !strings.HasSuffix(messages[5], ", after 5 other executions") {
			t.Errorf("%q", messages)
		}
		for _, x := range flood {
			done(t, x)
		}
	})
}
