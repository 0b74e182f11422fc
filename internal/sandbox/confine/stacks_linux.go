//go:build !cgo

package confine

// stacks returns 0: the threads of Go have small stacks.
func stacks() uint64 { return 0 }
