package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// outputTap is a backend that passes each output item to show when it is printed. It is
// for a daemon that runs one execution at a time: it does not separate executions.
type outputTap struct {
	sandbox.Backend
	show func(item []byte)
}

// Open implements sandbox.Backend.
func (t outputTap) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := t.Backend.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return tapped{s, t.show}, nil
}

type tapped struct {
	sandbox.Sandbox
	show func([]byte)
}

// Run implements sandbox.Sandbox.
func (t tapped) Run(ctx context.Context, p sandbox.Program, h sandbox.Host) (sandbox.Outcome, error) {
	return t.Sandbox.Run(ctx, p, tappedHost{h, t.show})
}

type tappedHost struct {
	sandbox.Host
	show func([]byte)
}

// Output implements sandbox.Host. It does not show output that the execution refuses.
func (t tappedHost) Output(p []byte) error {
	if err := t.Host.Output(p); err != nil {
		return err
	}
	t.show(p)
	return nil
}
