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
	return memory.New(memory.Config{Limit: func(owner string) int64 {
		id, err := tenant.ParseStored(owner)
		if err != nil { // an owner within Sandpiper
			return 0
		}
		return int64(megabytes(id)) << 20
	}})
}

// limitHeap makes the garbage collector work harder near the memory of the machine or of the
// process's cgroup, unless GOMEMLIMIT is set.
func limitHeap() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory.Machine() / 4 * 3) // tenants have at most half
	}
}
