//go:build !linux || !amd64

package microvm

import (
	"context"
	"runtime"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Backend does not exist on this system.
type Backend struct{ sandbox.Backend }

// New always fails.
func New(context.Context, Config) (*Backend, error) { return nil, Check(Config{}) }

// Check always fails.
func Check(Config) error {
	return fault.New(fault.Unavailable, "sandbox.backend microvm does not exist on %s/%s", runtime.GOOS, runtime.GOARCH).
		WithHint("use Linux on amd64, or remove sandbox.backend")
}
