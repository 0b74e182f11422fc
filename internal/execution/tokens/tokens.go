// Package tokens serves the host calls by which code replaces private values by tokens, and tokens by
// their values. It keeps nothing.
package tokens

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

type text struct {
	Text string `json:"text"`
}

// tokenized is a text with its values replaced by tokens, and the value of each token.
type tokenized struct {
	Text   string            `json:"text"`
	Tokens map[string]string `json:"tokens"`
}

// Methods returns the host calls of an execution whose values are redacted by gate.
func Methods(gate *redact.Gate) []hostcall.Method {
	return []hostcall.Method{
		hostcall.New("tokenize", 0, func(ctx context.Context, a text) (any, error) {
			result, tokens, err := gate.Tokens().Sanitize(ctx, a.Text)
			return tokenized{result, tokens}, err
		}),
		hostcall.New("detokenize", 0, func(ctx context.Context, a text) (any, error) {
			result, err := gate.Tokens().Detokenize(ctx, a.Text)
			return text{result}, err
		}),
	}
}
