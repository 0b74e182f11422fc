//go:build unix

package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps an unlinked file, which no other process can open and truncate.
func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(data []byte) { _ = unix.Munmap(data) }
