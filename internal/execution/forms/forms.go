// Package forms serves the host call by which code reads and fills forms. The code reads and writes
// its files itself, so that the daemon opens none for it.
package forms

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Processor reads and fills forms of documents, which it does not trust.
type Processor interface {
	// Process answers a request about a document. The answer is not trusted either: it is
	// passed to the code as it is.
	Process(ctx context.Context, request json.RawMessage, document []byte) (json.RawMessage, error)
}

type args struct {
	Request  json.RawMessage `json:"request"`
	Document []byte          `json:"document"`
}

// Methods returns the host call of an execution, which processes one document at a time; p is nil if
// code cannot use forms.
func Methods(p Processor) []hostcall.Method {
	turn := make(chan struct{}, 1)
	return []hostcall.Method{hostcall.New("form", 0, func(ctx context.Context, a args) (any, error) {
		if p == nil {
			return nil, fault.New(fault.Unavailable, "forms are not available here")
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return p.Process(ctx, a.Request, a.Document)
	})}
}
