//go:build !linux

package process

import (
	"context"
	"runtime"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// FirstUID is the first host id that a daemon running as root assigns to tenants.
const FirstUID = 200_000

// TenantUIDs returns 0.
func TenantUIDs() (int, error) { return 0, nil }

// EnterSubordinate always fails.
func EnterSubordinate() error {
	return fault.New(fault.Unavailable, "sandbox.subordinate_uids has no effect on %s: it requires Linux", runtime.GOOS).
		WithHint("remove the setting")
}

// Backend does not exist on this system.
type Backend struct{}

// New always fails.
func New(Config) (*Backend, error) {
	return nil, fault.New(fault.Unavailable, "code cannot be executed on %s: the sandbox requires Linux namespaces, Landlock and seccomp",
		runtime.GOOS).
		WithHint("run Sandpiper on Linux (amd64 or arm64, glibc), for instance in a virtual machine; everything but execution works here")
}

// Open always fails.
func (*Backend) Open(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	_, err := New(Config{})
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
	return sandbox.Report{Backend: "process", Layers: []sandbox.Layer{{
		Name: "kernel", State: "failed", Required: true, Detail: "this is " + runtime.GOOS + ", not Linux",
		Remedy: "run Sandpiper on Linux (amd64 or arm64, glibc), for instance in a virtual machine",
	}}}
}
