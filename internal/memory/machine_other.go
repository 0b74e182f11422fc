//go:build !linux

package memory

// Machine returns the memory that the process can use, in bytes: an assumption where it is not
// known.
func Machine() int64 { return 8 << 30 }
