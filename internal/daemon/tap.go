package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// tap is a backend that also shows output to somebody who watches it come, item
// by item, before the result. It is for a daemon that one person runs one
// execution in: it does not tell executions apart.
type tap struct {
	sandbox.Backend
	show func(item []byte)
}

// Open implements sandbox.Backend.
func (t tap) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
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

// Output implements sandbox.Host. What the execution refuses is not shown.
func (t tappedHost) Output(p []byte) error {
	if err := t.Host.Output(p); err != nil {
		return err
	}
	t.show(p)
	return nil
}
