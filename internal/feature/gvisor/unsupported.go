//go:build !linux

package gvisor

import (
	"context"
	"runtime"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Backend does not exist on this system.
type Backend struct{ sandbox.Backend }

// New always fails.
func New(ctx context.Context, cfg Config) (*Backend, error) { return nil, Check(ctx, cfg) }

// Check always fails.
func Check(context.Context, Config) error {
	return fault.New(fault.Unavailable, "code cannot be executed on %s: gVisor requires Linux", runtime.GOOS).
		WithHint("run Sandpiper on Linux (amd64 or arm64, glibc), for instance in a virtual machine; everything but execution works here")
}
