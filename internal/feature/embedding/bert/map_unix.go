//go:build unix

package bert

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the first size bytes of a file, which the program cannot change there.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	return data, func() error { return unix.Munmap(data) }, err
}
