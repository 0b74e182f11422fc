package redact

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"unsafe"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Ingester prepares text of servers. Its zero value refuses.
type Ingester struct {
	scope *scope
	tool  tool.Ref // that returned the text; zero if unknown
}

// From returns an Ingester for answers of a tool, to which exceptions for this tool apply.
func (g Ingester) From(ref tool.Ref) Ingester { return Ingester{g.scope, ref} }

// Sent prepares the arguments of a call for its answer: if an exception applies to the tool,
// the values in its arguments stay private, wherever it returns them.
func (g Ingester) Sent(args json.RawMessage) {
	if active, _ := g.scope.active(); active && g.scope.hasExceptionFor(g.tool) {
		g.index(g.scope.findPersonal(), string(args))
	}
}

// finder returns a finder that skips what exceptions for the tool and for keys apply to.
func (g Ingester) finder() finder {
	f := g.scope.findPersonal()
	f.skip = func(f detect.Finding, key, text string) bool { return g.scope.skips(g.tool, f, key, text) }
	return f
}

// Result prepares the answer of a server for code or a model. Text with the syntax of a
// token is marked as foreign, because only tokens of this vault may be restored. Values
// are added to the index, so that they are found wherever they leave later; in mode
// Strict they are replaced by interpreter-local tokens.
func (g Ingester) Result(ctx context.Context, res tool.Result) (tool.Result, error) {
	active, err := g.scope.active()
	if !active {
		return res, err
	}
	var large []string
	defer func() { g.indexLater(large) }()
	if res.Structured, err = g.json(ctx, res.Structured, &large); err != nil {
		return res, err
	}
	res.Parts = append([]tool.Part(nil), res.Parts...)
	for i := range res.Parts {
		p := &res.Parts[i]
		for _, text := range []*string{&p.Text, &p.Name, &p.URI} {
			if *text, err = g.text(ctx, *text, &large); err != nil {
				return res, err
			}
		}
		if p.Raw, err = g.json(ctx, p.Raw, &large); err != nil {
			return res, err
		}
	}
	return res, nil
}

// JSON is Result for JSON.
func (g Ingester) JSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var large []string
	defer func() { g.indexLater(large) }()
	return g.json(ctx, raw, &large)
}

// json is JSON, except that a large text is added to large instead of the index.
func (g Ingester) json(ctx context.Context, raw json.RawMessage, large *[]string) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	text, before, after := unsafe.String(unsafe.SliceData(raw), len(raw)), "", ""
	if raw[0] != '{' && raw[0] != '[' { // a bare number would be scanned as text
		before, after = "[", "]"
	}
	clean, err := g.text(ctx, before+text+after, large)
	if err != nil {
		return nil, err
	}
	if clean = clean[len(before) : len(clean)-len(after)]; clean == text {
		return raw, nil
	}
	return json.RawMessage(clean), nil
}

// maxSyncScan is the size up to which a text is scanned before code gets it; longer
// texts are scanned while code runs.
const maxSyncScan = 32 << 10

// indexLater adds the values in large texts to the index while the code runs.
func (g Ingester) indexLater(large []string) {
	if len(large) > 0 {
		g.Later(func() { g.indexValues(large...) })
	}
}

// Text is Result for one text.
func (g Ingester) Text(ctx context.Context, text string) (string, error) {
	var large []string
	defer func() { g.indexLater(large) }()
	return g.text(ctx, text, &large)
}

// text is Text, except that a large text is added to large instead of the index.
func (g Ingester) text(ctx context.Context, text string, large *[]string) (string, error) {
	if active, err := g.scope.active(); !active || text == "" {
		return text, err
	}
	if g.scope.isStrict() && g.scope.owner.Local != nil {
		// without local: servers never receive interpreter-local tokens
		p := &redaction{turn: g.scope.turn, search: search{find: g.findForCode, adjustKey: g.scope.rules.cfg.Scanner.Person}}
		p.createTokens = func(_ context.Context, values []vault.Value) ([]vault.Token, error) {
			g.scope.vault().index(values) // texts that do not pass through code may contain them too
			return g.scope.owner.Local.createAll(values), nil
		}
		return p.run(ctx, "", text)
	}
	if g.scope.owner.Vault != nil {
		if len(text) <= maxSyncScan {
			g.indexValues(text)
		} else {
			*large = append(*large, text)
		}
	}
	// A forged token may be written with escapes.
	if len(vault.FindTokens(text)) == 0 && !strings.Contains(text, `\u00`) {
		return text, nil
	}
	marks := &redaction{turn: g.scope.turn, search: search{find: findNothing}}
	return marks.run(ctx, "", text)
}

// LargePart reports whether a part of an answer that is too large for memory contains text
// in the form of a token, perhaps with escapes. With index it adds the values in the part
// to the index before it returns.
func (g Ingester) LargePart(ctx context.Context, part string, index bool) (tokens bool, err error) {
	if active, err := g.scope.active(); !active {
		return false, err
	}
	if index && g.scope.owner.Vault != nil {
		g.indexValues(part)
	}
	return len(vault.FindTokens(part)) > 0 || escapedWord.MatchString(part), ctx.Err()
}

// escapedWord matches JSON escapes of characters that tokens consist of.
var escapedWord = regexp.MustCompile(`\\u00(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[bBdDfF]|7[eE])`)

// findForCode returns the values that code may only see as tokens, including those
// that the interpreter has tokens for, wherever they occur.
func (g Ingester) findForCode(key, text string) []detect.Finding {
	return detect.Resolve(append(g.finder().detect(key, text), g.scope.owner.Local.find(text)...), text)
}

// indexValues adds the values in texts to the index of the vault.
func (g Ingester) indexValues(texts ...string) { g.index(g.finder(), texts...) }

func (g Ingester) index(f finder, texts ...string) {
	c := &collector{turn: g.scope.turn, search: search{find: f.detect, adjustKey: g.scope.rules.cfg.Scanner.Person}}
	c.collectAll(texts)
	g.scope.vault().index(c.values)
}

// Later runs f, which reads a large text, while the code runs: one processor is left to that. If several such
// functions wait, it waits too, so that a loop does not fill the memory with answers.
func (g Ingester) Later(f func()) {
	s := g.scope
	s.pending.Go(func() error {
		s.reading <- struct{}{}
		defer func() { <-s.reading }()
		f()
		return nil
	})
}

// Wait waits until the values of all ingested texts are indexed, and the functions of Later have returned.
func (g Ingester) Wait() { _ = g.scope.pending.Wait() } // they return no errors
