package mcpserver

import (
	"context"
	"maps"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// privacyTools returns the tools for tokens; none in mode off.
func (s *Server) privacyTools(a audience) []builtin {
	if a.mode == redact.Off {
		return nil
	}
	given := []param{{name: "text", kind: text, required: true}}
	return []builtin{{
		name: "sanitize_pii", profile: Standard,
		about:  "Replace personal data in a text by tokens.",
		params: given,
		hints:  wire.Hints{Idempotent: true},
		run:    s.sanitize,
	}, {
		name: "restore_pii", profile: Standard,
		about:  "Show the values of tokens, if allowed; code accepts tokens.",
		params: given,
		hints:  wire.Hints{ReadOnly: true},
		run:    s.restore,
	}}
}

func (s *Server) sanitize(ctx context.Context, c call) (redact.Message, error) {
	var args struct{ Text string }
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	clean, tokens, err := c.exit().Tokens().Sanitize(ctx, args.Text)
	if err != nil {
		return redact.Message{}, err
	}
	types := map[string]bool{}
	for t := range tokens {
		types[string(vault.Token(t).Type())] = true
	}
	return redact.Message{Sanitized: true, Body: struct {
		Text  string   `json:"sanitized_text"`
		Found int      `json:"pii_found"` // values
		Types []string `json:"pii_types"`
	}{clean, len(tokens), append([]string{}, slices.Sorted(maps.Keys(types))...)}}, nil
}

// restore is the only answer that contains values.
func (s *Server) restore(_ context.Context, c call) (redact.Message, error) {
	var args struct{ Text string }
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	if !c.exit().CanReveal() {
		return redact.Message{}, fault.New(fault.Denied, "restore_pii is refused: the setting pii.restore does not allow it here").
			WithHint("use the token itself in code, in files or as a tool argument: it is replaced by its value there; " +
				"the operator can set pii.restore to allow. Its default, auto, allows it over stdio only")
	}
	return redact.Message{Reveal: true, Body: struct {
		Text string `json:"restored_text"`
	}{args.Text}}, nil
}
