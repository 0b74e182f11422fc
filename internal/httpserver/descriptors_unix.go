//go:build unix

package httpserver

import (
	"math"
	"syscall"
)

// descriptors returns the limit of open descriptors of this process.
func descriptors() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return math.MaxInt32
	}
	return int(min(l.Cur, math.MaxInt32))
}
