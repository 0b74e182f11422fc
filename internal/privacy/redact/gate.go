package redact

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
)

// Gate is the way of one tenant's and session's text to a model. Its zero value
// refuses.
type Gate struct{ scope *scope }

// For returns the gate of a tenant. The gate of the zero Owner is for text that
// belongs to no tenant: values in it are redacted and cannot be restored.
func (r *Rules) For(o Owner) *Gate {
	s := &scope{rules: r.Of(o.Tenant), owner: o, reading: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
	s.pending.SetLimit(maxPending)
	return &Gate{s}
}

// maxPending is the number of functions that read texts, or wait for that: two for an answer.
const maxPending = 4

// Ingester returns the part that prepares what servers return.
func (e *Gate) Ingester() Ingester { return Ingester{scope: e.scope} }

// Restorer returns the part that restores tokens in text that a model wrote.
func (e *Gate) Restorer() Restorer { return Restorer{e.scope} }

// Tokens returns the part that converts text on request.
func (e *Gate) Tokens() Tokens { return Tokens{e.scope} }

// active is scope.active. A nil Gate is a zero Gate.
func (e *Gate) active() (bool, error) {
	if e == nil {
		return false, ErrNotRedacted
	}
	return e.scope.active()
}

// Turn waits for the turn of the tenant to process a text of n bytes, if that is large. The caller
// calls done, and redacts nothing before.
func (e *Gate) Turn(ctx context.Context, n int) (done func(), err error) {
	if e == nil || e.scope.isZero() {
		return nil, ErrNotRedacted
	}
	return e.scope.turn(ctx, n)
}

// Strict reports whether code sees tokens instead of values.
func (e *Gate) Strict() bool { return e.scope.isStrict() }

// Redact redacts v, a Message or any JSON value. The tokens in the result are on disk
// when it returns.
func (e *Gate) Redact(ctx context.Context, v any) (Redacted, error) {
	active, err := e.active()
	if err != nil {
		return Redacted{}, err
	}
	m, ok := v.(Message)
	if !ok {
		m = Message{Body: v}
	}
	text, err := marshalBody(m.Body)
	switch {
	case err != nil, m.Sanitized:
	case m.Reveal:
		text, err = e.reveal(ctx, text)
	case active:
		text, err = e.Tokenize(ctx, "", text)
	}
	if err == nil && m.Page != nil {
		text, err = e.withPage(ctx, text, *m.Page)
	}
	if err != nil {
		return Redacted{}, err
	}
	neutralized := 0
	if f := e.scope.rules.cfg.Filter; f != nil {
		text, neutralized = f.Count(m.Sources, text)
	}
	if _, plain := m.Body.(string); !plain && !m.Protocol {
		text = withNeutralized(text, neutralized)
		text = withMember(text, "note", m.Note)
		if m.CountTokens && active && !m.Reveal {
			text = withMember(text, "private", privateNote(text, e.CanReveal()))
		}
	}
	redacted := release(text, m)
	redacted.neutralized = neutralized
	return redacted, nil
}

// RedactJSON returns JSON with tokens in place of private values.
func (e *Gate) RedactJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	redacted, err := e.Redact(ctx, raw)
	if err != nil {
		return nil, err
	}
	text, _, _, err := redacted.Content()
	if err == nil && !json.Valid([]byte(text)) {
		err = errors.New("redacted JSON is not JSON")
	}
	return json.RawMessage(text), err
}

// RevealToPerson returns text unredacted, for display to the user only, never to a
// model. It records that the values were shown.
func (e *Gate) RevealToPerson(ctx context.Context, text string) (Redacted, error) {
	active, err := e.active()
	if err != nil {
		return Redacted{}, err
	}
	if active {
		c := Transfer{Destination: ToPerson, Types: map[string]int{}}
		for _, f := range e.scope.findAll().find("", text) {
			c.Types[string(f.Type)]++
		}
		if len(c.Types) > 0 {
			if err := e.scope.record(ctx, c); err != nil {
				return Redacted{}, err
			}
		}
	}
	return release(text, Message{}), nil
}

// release makes a Redacted. Only Redact and RevealToPerson may call it.
func release(text string, m Message) Redacted {
	return Redacted{ok: true, text: text, images: m.Images, failed: m.Failed}
}

// Neutralize returns a line of text as Redact shows it to a model, except for its values.
func (e *Gate) Neutralize(line string) string {
	if _, err := e.active(); err != nil || e.scope.rules.cfg.Filter == nil {
		return line
	}
	line, _ = e.scope.rules.cfg.Filter.Count("", line)
	return line
}

// CanReveal reports whether a model may see values on request.
func (e *Gate) CanReveal() bool {
	active, _ := e.active()
	return active && e.scope.rules.cfg.Reveal
}

func (e *Gate) reveal(ctx context.Context, text string) (string, error) {
	if !e.CanReveal() {
		return "", errors.New("redact: revealing values is not enabled")
	}
	return e.Restorer().restore(ctx, ToModel, text)
}

func (e *Gate) withPage(ctx context.Context, text string, p Page) (string, error) {
	page := p.Text[p.Start:p.End]
	active, err := e.active()
	if active {
		page, err = e.scope.redactionFor(e.scope.findForModel()).runPage(ctx, p)
	}
	if err != nil {
		return "", err
	}
	return strings.Replace(text, quote(PagePlaceholder), quote(page), 1), nil
}

// Tokenize returns text with values replaced by tokens; key is the JSON key of the
// text, if any. A later Redact of the result leaves the tokens as they are.
func (e *Gate) Tokenize(ctx context.Context, key, text string) (string, error) {
	active, err := e.active()
	switch {
	case err != nil:
		return "", err
	case !active:
		return text, nil
	}
	if err := e.scope.vault().refreshIndex(ctx); err != nil {
		return "", err
	}
	return e.scope.redactionFor(e.scope.findForModel()).run(ctx, key, text)
}

// Truncate returns at most the first n bytes of a text and never ends within a value:
// a truncated value would not be detected.
func (e *Gate) Truncate(text string, n int) string {
	active, err := e.active()
	if err != nil {
		return ""
	}
	if len(text) <= n {
		return text
	}
	if active {
		for _, f := range e.scope.findAll().find("", text[:min(len(text), n+truncateLookahead)]) {
			if f.Start < n && n < f.End {
				n = f.Start
			}
		}
	}
	return strings.ToValidUTF8(text[:n], "")
}

// truncateLookahead is how many bytes after the cut Truncate searches for the end of a
// value.
const truncateLookahead = 1 << 10

// ContainsPrivate reports whether a text has values that would be replaced; key is the
// JSON key of the text, if any.
func (e *Gate) ContainsPrivate(key, text string) bool {
	active, err := e.active()
	return err != nil || active && len(e.scope.findForModel().find(key, text)) > 0
}
