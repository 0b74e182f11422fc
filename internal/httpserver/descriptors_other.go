//go:build !unix

package httpserver

import "math"

// descriptors returns the limit of open descriptors of this process.
func descriptors() int { return math.MaxInt32 }
