package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// openToTruncate opens a file for writing. O_NONBLOCK avoids blocking on a FIFO.
func openToTruncate(d *dir, name string) (*os.File, error) {
	return d.openat2(name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}
