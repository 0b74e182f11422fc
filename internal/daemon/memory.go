package daemon

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// newMemory returns the budget of the bytes that requests of tenants take in this process;
// megabytes returns limits.memory_mb of a tenant.
func newMemory(megabytes func(tenant.ID) int) *memory.Budget {
	return memory.New(memory.Config{Busy: collectLess(), Limit: func(owner string) int64 {
		id, err := tenant.ParseStored(owner)
		if err != nil { // an owner within Sandpiper
			return 0
		}
		return int64(megabytes(id)) << 20
	}})
}

// collectLess returns a function that makes the garbage collector run less often while the process
// is busy with large texts; nil if another percentage than Go's was set. Their bytes are limited then,
// and limitHeap applies.
func collectLess() func(busy bool) {
	if set := debug.SetGCPercent(100); set != 100 {
		debug.SetGCPercent(set)
		return nil
	}
	return func(busy bool) {
		if busy {
			debug.SetGCPercent(300)
		} else {
			debug.SetGCPercent(100)
		}
	}
}

// limitHeap makes the garbage collector work harder near the memory of the machine or of the
// process's cgroup, unless GOMEMLIMIT is set.
func limitHeap() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory.Machine() / 4 * 3) // tenants have at most half
	}
}
