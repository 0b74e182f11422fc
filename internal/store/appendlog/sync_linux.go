package appendlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync syncs the content of a file, and its size if that has changed.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
