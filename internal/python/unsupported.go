//go:build !linux || !(amd64 || arm64)

package python

import (
	"context"
	"runtime"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Only systems with a sandbox to run it in carry CPython: elsewhere it would be
// 40 MB that nothing may start.

// Install refuses: this build carries no CPython.
func Install(context.Context, Config) (*Installation, error) {
	return nil, unsupported()
}

// SystemLibraries refuses: this build carries no CPython.
func (i *Installation) SystemLibraries() (map[string]string, error) {
	return nil, unsupported()
}

func unsupported() error {
	return fault.New(fault.Unavailable, "this build for %s/%s carries no CPython, since there is no sandbox for it there yet", runtime.GOOS, runtime.GOARCH).
		WithHint("run Sandpiper on Linux (amd64 or arm64) with glibc: a virtual machine or WSL 2 will do")
}
