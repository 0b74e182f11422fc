package mcpserver

import (
	"context"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// privacyTools are the tools for tokens.
type privacyTools struct{ *Server }

// privacyTools returns the tools for tokens; none in mode off.
func (s privacyTools) all(a audience) []builtin.Tool {
	if a.mode == redact.Off {
		return nil
	}
	given := []builtin.Param{{Name: "text", Kind: builtin.Text, Required: true}}
	return []builtin.Tool{{
		Name: "sanitize_pii", Profile: builtin.Standard,
		Description: "Replace personal data in a text by tokens.",
		Params:      given,
		Hints:       wire.Hints{Idempotent: true},
		Run:         builtin.Handle(sanitize),
	}, {
		Name: "restore_pii", Profile: builtin.Standard,
		Description: "Show token values if allowed; code accepts tokens.",
		Params: []builtin.Param{{Name: "text", Kind: builtin.Text}, {Name: "execution_id", Kind: builtin.Text, Rare: true},
			{Name: "filename", Kind: builtin.Text, Rare: true}},
		Hints: wire.Hints{ReadOnly: true},
		Run:   builtin.Handle(s.restore),
	}}
}

func sanitize(ctx context.Context, c builtin.Call, args struct{ Text string }) (redact.Message, error) {
	clean, tokens, err := c.Gate().Tokens().Sanitize(ctx, args.Text)
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

// restore is the only answer that contains values: those of the tokens in a text, in the last answer
// about an execution or in a file, so that a model need not write them again.
func (s privacyTools) restore(ctx context.Context, c builtin.Call, args struct {
	Text, Filename *string
	Execution      *string `json:"execution_id"`
}) (redact.Message, error) {
	if !c.Gate().CanReveal() {
		return redact.Message{}, fault.New(fault.Denied, "restore_pii is refused: the setting pii.restore does not allow it here").
			WithHint("use the token itself in code, in files or as a tool argument: it is replaced by its value there; " +
				"the operator can set pii.restore to allow. Its default, auto, allows it over stdio only")
	}
	var shown string
	var err error
	switch {
	case args.Text != nil && args.Execution == nil && args.Filename == nil:
		shown = *args.Text
	case args.Text == nil && args.Execution != nil && args.Filename == nil:
		shown, err = answerOf(ctx, s.Server, c, *args.Execution)
	case args.Text == nil && args.Execution == nil && args.Filename != nil:
		shown, err = fileWithTokens(ctx, c, *args.Filename)
	default:
		err = fault.New(fault.Invalid, "restore_pii needs one of text, execution_id and filename")
	}
	return redact.Message{Reveal: true, Body: struct {
		Text string `json:"restored_text"`
	}{shown}}, err
}

// answerOf returns the output and result of an execution with tokens: of an answer that is kept in
// memory, or of the stored result of a background execution, which also exists after a restart.
func answerOf(ctx context.Context, s *Server, c builtin.Call, execution string) (string, error) {
	if text, ok := s.recent.find(c.Home.ID(), execution); ok {
		return text, nil
	}
	b, err := s.Describe(ctx, c.Home, execution)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return "", fault.New(fault.NotFound, "no answer about execution %.60q is kept: answers with tokens are, until the server ends, "+
			"the last %d and %d KB together; those of background executions are as long as their results",
			execution, maxRecent, maxTenantBytes>>10).
			WithHint("write the tokens in text, or let code write the values to a file and name it in filename; running the code again " +
				"returns the same tokens")
	case err != nil:
		return "", err
	case b.Reply == nil:
		return "", fault.New(fault.Invalid, "execution %.60q has no result to restore: it is %s", execution, b.State).
			WithHint("wait for its end with wait_for_background_task")
	}
	redacted, err := c.Gate().Redact(ctx, builtin.Answer(*b.Reply, c.Commands))
	if err != nil {
		return "", err
	}
	answer, _, _, err := redacted.Content()
	if err != nil {
		return "", err
	}
	_, text, _ := shownIn(answer)
	return text, nil
}

// fileWithTokens returns a file with its values replaced by tokens, so that restoring them is recorded.
func fileWithTokens(ctx context.Context, c builtin.Call, name string) (string, error) {
	if err := c.Name(ctx, &name); err != nil {
		return "", err
	}
	if err := holdFile(ctx, c.Home, name, maxPage); err != nil {
		return "", err
	}
	p, err := c.Home.Workspace.Read(ctx, name, 0, maxPage)
	switch {
	case err != nil:
		return "", err
	case p.Next != 0:
		return "", fault.New(fault.Exhausted, "the file %s has %d bytes; restore_pii shows at most %d", name, p.Size, maxPage).
			WithHint("let code write the part that the person asked for to a smaller file")
	case !utf8.Valid(p.Content):
		return "", fault.New(fault.Invalid, "the file %s is not UTF-8 text", name)
	}
	return c.Gate().Tokenize(ctx, "", string(p.Content))
}
