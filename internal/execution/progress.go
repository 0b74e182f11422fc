package execution

import (
	"context"
	"math"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// maxMessage limits a progress message, in bytes.
const maxMessage = 1000

// progress replaces the execution's latest progress.
func (h *host) progress(ctx context.Context, p Progress) (_ any, err error) {
	if math.IsNaN(p.Done) || p.Done < 0 || p.Total < 0 {
		return nil, fault.New(fault.Invalid, "progress is %v of %v; both must be 0 or more", p.Done, p.Total)
	}
	if p.Message, err = h.exit.Tokens().Promote(ctx, h.exit.Truncate(p.Message, maxMessage)); err != nil {
		return nil, err
	}
	h.run.report(p)
	return nil, nil
}
