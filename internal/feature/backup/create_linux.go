package backup

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// createUnnamed creates a file without a name, of which nothing is left if this process is killed, and
// returns a function that gives it its name. Not all file systems can.
func createUnnamed(dir string) (f *os.File, link func(path string) error, err error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	f = os.NewFile(uintptr(fd), filepath.Join(dir, "(unnamed)"))
	return f, func(path string) error {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	}, nil
}
