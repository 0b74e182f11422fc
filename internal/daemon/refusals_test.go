package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func TestRefusalsAreAuditedOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts []int64
		token := audit.Line{Kind: audit.Login, Outcome: "refused"}
		r := newRefusals(func(l audit.Line) {
			if l.Kind != audit.Login || l.Outcome != "refused" {
				t.Errorf("got %+v", l)
			}
			counts = append(counts, l.Count)
		})
		for range 5 { // one at once, and four a minute later
			r.add(token)
		}
		time.Sleep(61 * time.Second)
		r.add(token)
		time.Sleep(10 * time.Minute)
		for range 3 {
			r.add(token)
		}
		r.close()
		r.close()
		if diff := cmp.Diff([]int64{1, 4, 1, 1, 2}, counts); diff != "" {
			t.Error(diff)
		}
	})
}

// Ids are counted per tenant, so that one tenant cannot hide the attempts of another.
func TestRefusedIDsAreAuditedPerTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []audit.Line
		r := newRefusals(func(l audit.Line) { lines = append(lines, l) })
		alice, bob := parse(t, "alice"), parse(t, "bob")
		try := func(id tenant.ID, execution string) {
			r.add(audit.Line{Kind: audit.Access, Tenant: id, Execution: execution, Outcome: "unknown_execution"})
		}
		try(alice, "exec_1")
		try(alice, "exec_2")
		try(bob, "exec_3")
		r.close()
		want := []audit.Line{
			{Kind: audit.Access, Tenant: alice, Execution: "exec_1", Outcome: "unknown_execution", Count: 1},
			{Kind: audit.Access, Tenant: bob, Execution: "exec_3", Outcome: "unknown_execution", Count: 1},
			{Kind: audit.Access, Tenant: alice, Outcome: "unknown_execution", Count: 1},
		}
		if diff := cmp.Diff(want, lines, cmp.Comparer(func(a, b tenant.ID) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
	})
}

func parse(t *testing.T, uid string) tenant.ID {
	t.Helper()
	id, err := tenant.Parse(uid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
