package home_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// More than 64 tenants that are active in turn use the homes that were opened for their first requests.
func TestTenantsInTurnDoNotReopenHomes(t *testing.T) {
	var mu sync.Mutex
	opened := map[tenant.ID]int{}
	ts := open(t, home.Config{Root: newRoot(t), Idle: 100, Settings: func(id tenant.ID, _ string) home.Settings { // called for each open
		mu.Lock()
		defer mu.Unlock()
		opened[id]++
		return home.Settings{}
	}})
	for round := range 3 {
		for i := range 100 {
			h := acquire(t, ts, fmt.Sprint("tenant", i))
			write(t, h, fmt.Sprint("file", round), "x")
			if err := h.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		home.TrimUnused(ts)
	}
	for id, n := range opened {
		if n != 1 || len(opened) != 100 {
			t.Errorf("the home of %s of %d was opened %d times", id, len(opened), n)
		}
	}
	if err := acquire(t, ts, "another").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquire(t, ts, "tenant1")
	acquire(t, ts, "tenant0") // which was unused for longest
	if opened[id(t, "tenant1")] != 1 || opened[id(t, "tenant0")] != 2 {
		t.Errorf("the homes were opened %d and %d times", opened[id(t, "tenant0")], opened[id(t, "tenant1")])
	}
}

func TestUnusedHomesFollowDescriptorsAndMemory(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		descriptors int
		memory      int64
		want        int
	}{
		{256, 1 << 40, 12},
		{1024, 1 << 40, 51},
		{20_000, 24 * 1024 * mb, 1000},
		{1 << 20, 512 * mb, 64},
		{1 << 20, 16 * 1024 * mb, 2048},
		{10, 1 << 40, 0},
		{1 << 20, mb, 0},
	} {
		if got := home.UnusedHomes(c.descriptors, c.memory); got != c.want {
			t.Errorf("%d homes stay open with %d descriptors and %d MB, want %d", got, c.descriptors, c.memory/mb, c.want)
		}
	}
}
