package home

import (
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// An execution asks for the tier at each call, and keeps its home open meanwhile: the file is read
// once in tierEvery, and a change is seen then.
func TestTierOfAnOpenHomeIsReadOnceInAWhile(t *testing.T) {
	all, err := Open(t.Context(), Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { all.Close() })
	home, err := all.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Release(t.Context()) })
	s, old := all.homes[tenant.Local], time.Now().Add(-2*tierEvery)
	s.tierRead = old
	if tier, err := all.Tier(tenant.Local); tier != "" || err != nil || s.tierRead.Equal(old) {
		t.Errorf("the unchanged tier is %q, read at %v: %v", tier, s.tierRead, err)
	}
	if err := all.SetTier(tenant.Local, "gold"); err != nil {
		t.Fatal(err)
	}
	s.tierRead = old
	for range 2 {
		if tier, err := all.Tier(tenant.Local); tier != "gold" || err != nil || !s.tierRead.Equal(old) {
			t.Errorf("the changed tier is %q: %v", tier, err)
		}
	}
	again, err := all.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Release(t.Context()) })
	if again.parts == home.parts || again.parts.tier != "gold" {
		t.Errorf("the next use has tier %q", again.parts.tier)
	}
}
