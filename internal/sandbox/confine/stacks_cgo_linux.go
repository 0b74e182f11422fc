//go:build cgo

package confine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// stacks returns the memory that the C library reserves for the stacks of threads, which
// RLIMIT_DATA counts: as much as RLIMIT_STACK for each, or 2 MiB if there is no such limit.
func stacks() uint64 {
	size := uint64(2 << 20)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_STACK, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
		size = limit.Cur
	}
	return size * uint64(runtime.GOMAXPROCS(0)+8) // the runtime needs some threads of its own
}
