package process

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

type box struct{ w *process }

func newSandbox(b *Backend, w *process, spec sandbox.Spec) *box { return &box{w} }
func (x *box) Run(ctx context.Context, p sandbox.Program, h sandbox.Host) (sandbox.Outcome, error) {
	return sandbox.Outcome{}, nil
}
func (x *box) Close() error { x.w.end(); return nil }
