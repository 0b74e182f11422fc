//go:build !unix

package home

import "math"

func descriptorLimit() int { return math.MaxInt32 }

func descriptorsShort() bool { return false }
