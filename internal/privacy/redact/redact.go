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

// Message is content on its way out. Body is marshalled to compact JSON, except
// that a string passes as text.
type Message struct {
	Body      any
	Images    []Image
	Failed    bool   // the answer reports a failure
	Sources   string // the servers whose words may be in Body, if that is known
	Page      *Page  // stands in Body where that has PageHere; nil if it has not
	Sanitized bool   // Body is what Sanitize returned, and passes as it is
	Reveal    bool   // tokens in Body become values: the one way for these to a model, if the Rules have it
}

// Page is a part of a text, with some of what is before and behind it: a value
// that goes over the border of two pages stands on the first, as a token.
type Page struct {
	Text       string
	Start, End int
}

// PageHere is where a Page stands in a Body.
const PagePlaceholder = "\x00page"

// Image is a picture on its way out.
type Image struct {
	MIME string
	Data []byte
}

// Sealed is content that may leave. Its zero value is refused by every face.
type Redacted struct {
	ok     bool
	text   string
	images []Image
	failed bool
}

// ErrUnsealed is returned by faces that are handed a Sealed nobody sealed.
var ErrNotRedacted = errors.New("egress: content was not sealed")

// Open returns what may be sent. It fails on the zero Sealed.
func (s Redacted) Content() (text string, images []Image, failed bool, err error) {
	if !s.ok {
		return "", nil, false, ErrNotRedacted
	}
	return s.text, s.images, s.failed, nil
}

// Seal passes v, a Message or any JSON value, through the exit. Its tokens are
// on disk when it returns.
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

// ForPerson seals a text for the person alone, who sees the values in it; that they
// are shown is recorded. It never goes to a model.
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

// Reveals reports whether a model may be shown values.
func (e *Exit) CanReveal() bool { return !e.off() && e.rules.cfg.Reveal }

func (e *Exit) reveal(ctx context.Context, text string) (string, error) {
	if !e.CanReveal() {
		return "", errors.New("egress: values are not to be revealed")
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

// Outward returns text with tokens in place of what is private; key is what it
// stands under, if anything. Who uses it seals the whole later, which leaves the
// tokens as they are.
func (e *Exit) Tokenize(ctx context.Context, key, text string) (string, error) {
	if e.off() {
		return text, nil
	}
	if err := e.refreshIndex(ctx); err != nil {
		return "", err
	}
	return e.newPass(e.toModel()).run(ctx, key, text)
}

// recall has the vault ready to find again what it keeps.
func (e *Exit) refreshIndex(ctx context.Context) error {
	if e.owner.Vault == nil {
		return nil
	}
	return e.owner.Vault.RefreshIndex(ctx)
}

// outward is a passage to the model, of what a view finds.
func (e *Exit) newPass(v finder) *pass {
	return &pass{find: v.find, adjustKey: e.rules.cfg.Scanner.Person, disclosed: e.disclosed, createTokens: e.createTokens, findSpread: v.findSpread, learn: e.learn, local: e.owner.Local}
}

func (e *Exit) disclosed(ctx context.Context, t []vault.Token) (map[vault.Token]bool, error) {
	if e.owner.Vault == nil {
		return nil, nil
	}
	return e.owner.Vault.Disclosed(ctx, e.owner.Session, t)
}

// Settle returns text with tokens of the vault in place of those of the
// interpreter, for who will not know these. All else stays.
func (e *Exit) PromoteTokens(ctx context.Context, text string) (string, error) {
	if e.off() || e.owner.Local == nil {
		return text, nil
	}
	p := &pass{find: findNothing, createTokens: e.createTokens, keepForeign: true, local: e.owner.Local}
	return p.run(ctx, "", text)
}

func findNothing(string, string) []detect.Finding { return nil }

// Cut returns the beginning of a text, at most n bytes, that does not end inside a
// value: half of one would not be known for what it is.
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

// beyond is how far behind a cut is looked for the end of a value.
const truncateLookahead = 1 << 10

// detect returns what the rules find in a text.
func (e *Exit) detect(key, text string) []detect.Finding {
	return e.rules.cfg.Scanner.Detect(key, text)
}

// known returns the places of values that the vault has, or has seen.
func (e *Exit) findKnown(text string) []detect.Finding {
	if e.owner.Vault == nil {
		return nil
	}
	return e.owner.Vault.Find(text)
}

// columns returns what stands in the columns of tables whose lines are pieces, as
// those are that are printed line by line.
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

// know has the vault know values, and reports whether some were not known.
func (e *Exit) learn(values []vault.Value) bool {
	v := e.owner.Vault
	if v == nil {
		return false
	}
	values = slices.DeleteFunc(values, e.isKnown)
	v.IndexValues(values)
	return slices.ContainsFunc(values, e.isKnown) // what is short, or small letters, never is
}

func (e *Exit) isKnown(v vault.Value) bool {
	return slices.ContainsFunc(e.findKnown(v.Text), func(f detect.Finding) bool { return f.Start == 0 && f.End == len(v.Text) })
}

// tokenize has the vault make tokens. Without a vault nothing could be restored,
// and values are withheld.
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

var errOff = fault.New(fault.Unavailable, "privacy is off, so there are no tokens").WithHint("the operator can set pii.mode to egress")

// Sanitize is Outward for a text that somebody wants tokenised, and says what each
// token that it made stands for; in mode Strict its type instead. Since this could
// serve to find out what a token stands for, there is a budget for it.
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

// Private reports whether there is something private in a text; key is what it
// stands under, if anything.
func (e *Exit) ContainsPrivate(key, text string) bool {
	return !e.off() && len(e.toModel().find(key, text)) > 0
}
