package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// Message is outbound content. Body is marshalled to compact JSON; a string is sent as
// text.
type Message struct {
	Body      any
	Images    []Image
	Failed    bool   // the result is an error
	Sources   string // servers whose text Body may contain, if known
	Page      *Page  // replaces PagePlaceholder in Body; nil: none
	Sanitized bool   // Body was returned by Sanitize and is not redacted again
	Reveal    bool   // tokens in Body are restored: the only way for values to reach a model; requires Config.Reveal
}

// Page is a part of a text, with context on both sides: a value that crosses the end
// of a page is replaced by a token on the page where it begins.
type Page struct {
	Text       string
	Start, End int
}

// PagePlaceholder is the JSON string in a Body that is replaced by the Page.
const PagePlaceholder = "\x00page"

// Image is an outbound image.
type Image struct {
	MIME string
	Data []byte
}

// Redacted is content that may be sent to a model. Faces refuse its zero value.
type Redacted struct {
	ok     bool
	text   string
	images []Image
	failed bool
}

// ErrNotRedacted is returned for the zero Redacted and by the zero Exit.
var ErrNotRedacted = errors.New("redact: content was not redacted")

// Content returns what may be sent. It fails for the zero Redacted.
func (s Redacted) Content() (text string, images []Image, failed bool, err error) {
	if !s.ok {
		return "", nil, false, ErrNotRedacted
	}
	return s.text, s.images, s.failed, nil
}

// Redact redacts v, a Message or any JSON value. The tokens in the result are on disk
// when it returns.
func (e *Exit) Redact(ctx context.Context, v any) (Redacted, error) {
	if e == nil || e.rules == nil {
		return Redacted{}, ErrNotRedacted
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
	case !e.off():
		text, err = e.Tokenize(ctx, "", text)
	}
	if err == nil && m.Page != nil {
		text, err = e.withPage(ctx, text, *m.Page)
	}
	if err != nil {
		return Redacted{}, err
	}
	if f := e.rules.cfg.Filter; f != nil {
		text = f.Apply(m.Sources, text)
	}
	return Redacted{ok: true, text: text, images: m.Images, failed: m.Failed}, nil
}

// RevealToPerson returns text unredacted, for display to the user only, never to a
// model. It records that the values were shown.
func (e *Exit) RevealToPerson(ctx context.Context, text string) (Redacted, error) {
	if e == nil || e.rules == nil {
		return Redacted{}, ErrNotRedacted
	}
	if !e.off() {
		c := Transfer{Destination: ToPerson, Types: map[string]int{}}
		for _, f := range e.findAll().find("", text) {
			c.Types[string(f.Type)]++
		}
		if len(c.Types) > 0 {
			if err := e.record(ctx, c); err != nil {
				return Redacted{}, err
			}
		}
	}
	return Redacted{ok: true, text: text}, nil
}

func marshalBody(body any) (string, error) {
	if s, ok := body.(string); ok {
		return s, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(body)
	return string(bytes.TrimRight(b.Bytes(), "\n")), err
}

// CanReveal reports whether a model may see values on request.
func (e *Exit) CanReveal() bool { return !e.off() && e.rules.cfg.Reveal }

func (e *Exit) reveal(ctx context.Context, text string) (string, error) {
	if !e.CanReveal() {
		return "", errors.New("redact: revealing values is not enabled")
	}
	return e.restoreTokens(ctx, ToModel, text)
}

func (e *Exit) withPage(ctx context.Context, text string, p Page) (string, error) {
	page := p.Text[p.Start:p.End]
	if !e.off() {
		var err error
		if page, err = e.newPass(e.toModel()).runPage(ctx, p); err != nil {
			return "", err
		}
	}
	return strings.Replace(text, quote(PagePlaceholder), quote(page), 1), nil
}

// Tokenize returns text with values replaced by tokens; key is the JSON key of the
// text, if any. A later Redact of the result leaves the tokens as they are.
func (e *Exit) Tokenize(ctx context.Context, key, text string) (string, error) {
	if e.off() {
		return text, nil
	}
	if err := e.refreshIndex(ctx); err != nil {
		return "", err
	}
	return e.newPass(e.toModel()).run(ctx, key, text)
}

func (e *Exit) refreshIndex(ctx context.Context) error {
	if e.owner.Vault == nil {
		return nil
	}
	return e.owner.Vault.RefreshIndex(ctx)
}

// newPass returns a pass toward the model for the values that v finds.
func (e *Exit) newPass(v finder) *pass {
	return &pass{
		search:   search{find: v.find, adjustKey: e.rules.cfg.Scanner.Person, findSpread: v.findSpread, learn: e.learn},
		replacer: replacer{disclosed: e.disclosed, createTokens: e.createTokens, local: e.owner.Local},
	}
}

func (e *Exit) disclosed(ctx context.Context, t []vault.Token) (map[vault.Token]bool, error) {
	if e.owner.Vault == nil {
		return nil, nil
	}
	return e.owner.Vault.Disclosed(ctx, e.owner.Session, t)
}

// PromoteTokens returns text with interpreter-local tokens replaced by tokens of the
// vault, for readers outside the interpreter. Nothing else changes.
func (e *Exit) PromoteTokens(ctx context.Context, text string) (string, error) {
	if e.off() || e.owner.Local == nil {
		return text, nil
	}
	p := &pass{
		search:   search{find: findNothing},
		replacer: replacer{createTokens: e.createTokens, keepForeign: true, local: e.owner.Local},
	}
	return p.run(ctx, "", text)
}

func findNothing(string, string) []detect.Finding { return nil }

// Truncate returns at most the first n bytes of a text and never ends within a value:
// a truncated value would not be detected.
func (e *Exit) Truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	if !e.off() {
		for _, f := range e.findAll().find("", text[:min(len(text), n+truncateLookahead)]) {
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

// detect returns what the detection rules find in a text.
func (e *Exit) detect(key, text string) []detect.Finding {
	return e.rules.cfg.Scanner.Detect(key, text)
}

// findKnown returns the positions of values that the vault has stored or indexed.
func (e *Exit) findKnown(text string) []detect.Finding {
	if e.owner.Vault == nil {
		return nil
	}
	return e.owner.Vault.Find(text)
}

// columns returns the cells of tables whose lines are the pieces, as in line-by-line
// output.
func (e *Exit) columns(pieces []string) (cells []encoded.Spread) {
	var b strings.Builder
	starts := make([]int, len(pieces))
	for i, p := range pieces {
		starts[i] = b.Len()
		b.WriteString(strings.TrimRight(p, "\r\n"))
		b.WriteByte('\n')
	}
	for _, f := range e.rules.cfg.Scanner.Table(b.String()) {
		n, here := slices.BinarySearch(starts, f.Start)
		if !here {
			n--
		}
		at := encoded.Part{Piece: n, Start: f.Start - starts[n], End: f.End - starts[n]}
		cells = append(cells, encoded.Spread{Type: f.Type, Score: f.Score, Parts: []encoded.Part{at}})
	}
	return cells
}

// learn adds values to the index of the vault and reports whether any of them was new.
func (e *Exit) learn(values []vault.Value) bool {
	v := e.owner.Vault
	if v == nil {
		return false
	}
	values = slices.DeleteFunc(values, e.isKnown)
	v.IndexValues(values)
	return slices.ContainsFunc(values, e.isKnown) // short values and lower-case words are never indexed
}

func (e *Exit) isKnown(v vault.Value) bool {
	return slices.ContainsFunc(e.findKnown(v.Text), func(f detect.Finding) bool { return f.Start == 0 && f.End == len(v.Text) })
}

// createTokens returns tokens of the vault for values. Without a vault nothing could
// be restored, so the values are redacted.
func (e *Exit) createTokens(ctx context.Context, values []vault.Value) ([]vault.Token, error) {
	if e.owner.Vault == nil {
		all := make([]vault.Token, len(values))
		for i, v := range values {
			all[i] = vault.RedactedToken(v.Type)
		}
		return all, nil
	}
	return e.owner.Vault.Tokenize(ctx, e.owner.Session, values)
}

var errOff = fault.New(fault.Unavailable, "privacy is off: there are no tokens").WithHint("the operator can set pii.mode to egress")

// Sanitize is Tokenize on request of the model or its code. It also returns the value
// of each token that it created, in mode Strict the type instead. An hourly quota
// limits it, because tokenizing guesses would reveal the value of a token.
func (e *Exit) Sanitize(ctx context.Context, text string) (string, map[string]string, error) {
	if e.off() || e.owner.Vault == nil {
		return "", nil, errOff
	}
	if err := e.refreshIndex(ctx); err != nil {
		return "", nil, err
	}
	p := e.newPass(e.findAll())
	p.createTokens = func(ctx context.Context, values []vault.Value) ([]vault.Token, error) {
		if e.owner.Local != nil {
			return e.owner.Local.createAll(values), nil
		}
		if err := e.owner.Vault.ConsumeQuota(ctx, len(values)); err != nil {
			return nil, err
		}
		return e.createTokens(ctx, values)
	}
	text, err := p.run(ctx, "", text)
	all := map[string]string{}
	for i, t := range p.tokens {
		all[string(t)] = p.values[i].Text
		if e.Strict() {
			all[string(t)] = string(p.values[i].Type)
		}
	}
	return text, all, err
}

// ContainsPrivate reports whether a text has values that would be replaced; key is the
// JSON key of the text, if any.
func (e *Exit) ContainsPrivate(key, text string) bool {
	return !e.off() && len(e.toModel().find(key, text)) > 0
}
