//go:build !linux

package gvisor

import (
	"context"
	"runtime"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Backend does not exist on this system.
type Backend struct{}

// New always fails.
func New(context.Context, Config) (*Backend, error) {
	return nil, fault.New(fault.Unavailable, "code cannot be executed on %s: gVisor requires Linux", runtime.GOOS).
		WithHint("run Sandpiper on Linux (amd64 or arm64, glibc), for instance in a virtual machine; everything but execution works here")
}

// Check always fails.
func Check(ctx context.Context, cfg Config) error {
	_, err := New(ctx, cfg)
	return err
}

// Open always fails.
func (*Backend) Open(ctx context.Context, _ sandbox.Spec) (sandbox.Sandbox, error) {
	_, err := New(ctx, Config{})
	return nil, err
}

// Warm does nothing.
func (*Backend) Warm(sandbox.Spec) {}

// Drain does nothing.
func (*Backend) Drain(context.Context) {}

// Close does nothing.
func (*Backend) Close() error { return nil }

// Probe reports the missing kernel.
func (*Backend) Probe(context.Context) sandbox.Report { return Diagnose(nil) }

// Diagnose returns the report of a host on which New failed.
func Diagnose(error) sandbox.Report {
	return sandbox.Report{Backend: "gvisor", Layers: []sandbox.Layer{{
		Name: "kernel", State: "failed", Required: true, Detail: "this is " + runtime.GOOS + ", not Linux",
		Remedy: "run Sandpiper on Linux (amd64 or arm64, glibc), for instance in a virtual machine",
	}}}
}
