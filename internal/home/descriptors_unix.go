//go:build unix

package home

import (
	"math"
	"syscall"
)

// descriptorLimit returns the number of descriptors that this process may open.
func descriptorLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return math.MaxInt32
	}
	return int(min(uint64(l.Cur), math.MaxInt32))
}

// descriptorsShort reports whether three quarters of the descriptors of this process are open. The
// kernel assigns the lowest free number.
func descriptorsShort() bool {
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = syscall.Close(fd)
	}
	return err != nil || fd >= descriptorLimit()/4*3
}
