package execution

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Forms reads and fills forms of documents, which it does not trust.
type Forms interface {
	// Process answers a request about a document. The answer is not trusted either: it is
	// passed to the code as it is.
	Process(ctx context.Context, request json.RawMessage, document []byte) (json.RawMessage, error)
}

// FillsForms reports whether code can read and fill forms.
func (r *Runner) FillsForms() bool { return r.cfg.Forms != nil }

type formArgs struct {
	Request  json.RawMessage `json:"request"`
	Document []byte          `json:"document"`
}

// form processes a document of the code. The code reads and writes its files itself, so that
// the daemon opens none for it. The calls of one execution are made one after the other.
func (h *host) form(ctx context.Context, a formArgs) (any, error) {
	if h.r.cfg.Forms == nil {
		return nil, fault.New(fault.Unavailable, "forms are not available here")
	}
	select {
	case h.forming <- struct{}{}:
		defer func() { <-h.forming }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return h.r.cfg.Forms.Process(ctx, a.Request, a.Document)
}
