package redact

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Received returns what a server answered as code, or a model, may have it. What
// looks like a token in it is marked, since only what we gave ourselves stands for
// a value. What is private in it is known from now on, to be found again wherever
// it leaves; in mode Strict it is replaced by tokens of the interpreter.
func (e *Exit) IngestResult(ctx context.Context, res tool.Result) (tool.Result, error) {
	if e.off() {
		return res, nil
	}
	var err error
	if res.Structured, err = e.IngestJSON(ctx, res.Structured); err != nil {
		return res, err
	}
	res.Parts = append([]tool.Part(nil), res.Parts...)
	for i := range res.Parts {
		p := &res.Parts[i]
		for _, text := range []*string{&p.Text, &p.Name, &p.URI} {
			if *text, err = e.IngestText(ctx, *text); err != nil {
				return res, err
			}
		}
		if p.Raw, err = e.IngestJSON(ctx, p.Raw); err != nil {
			return res, err
		}
	}
	return res, nil
}

// ReceivedJSON is Received for JSON.
func (e *Exit) IngestJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	// In a list, since a number by itself would be taken for a text.
	list, err := e.IngestText(ctx, "["+string(raw)+"]")
	if err != nil {
		return nil, err
	}
	return json.RawMessage(list[1 : len(list)-1]), nil
}

// atOnce is how long a text is read before code gets it; a longer one is read
// while code works on it.
const maxSyncScan = 32 << 10

// ReceivedText is Received for one text.
func (e *Exit) IngestText(ctx context.Context, text string) (string, error) {
	if e.off() || text == "" {
		return text, nil
	}
	if e.Strict() && e.owner.Local != nil {
		p := &pass{find: e.findForCode, adjustKey: e.rules.cfg.Scanner.Person} // without local: a server has been given no token
		p.createTokens = func(_ context.Context, values []vault.Value) ([]vault.Token, error) {
			if v := e.owner.Vault; v != nil { // other texts, which code has no part in, may name them too
				v.IndexValues(values)
			}
			return e.owner.Local.createAll(values), nil
		}
		return p.run(ctx, "", text)
	}
	if v := e.owner.Vault; v != nil {
		if len(text) <= maxSyncScan {
			e.indexValues(v, text)
		} else {
			e.pending.Go(func() { e.indexValues(v, text) })
		}
	}
	// A token may be written with escapes, which nobody does who means no harm.
	if len(vault.FindTokens(text)) == 0 && !strings.Contains(text, `\u00`) {
		return text, nil
	}
	marks := &pass{find: findNothing}
	return marks.run(ctx, "", text)
}

// received returns what is private in what code is to see with tokens: also what it
// has tokens of already, where nothing says what it is.
func (e *Exit) findForCode(key, text string) []detect.Finding {
	return detect.Resolve(append(e.findPersonal(key, text), e.owner.Local.find(text)...), text)
}

// somebodys returns what the rules find in a text that is about a person.
func (e *Exit) findPersonal(key, text string) []detect.Finding {
	return finder{e, e.rules.isExempt}.detect(key, text)
}

// note has the vault know the values in a text.
func (e *Exit) indexValues(v *vault.Vault, text string) {
	p := &pass{find: e.findPersonal, adjustKey: e.rules.cfg.Scanner.Person}
	_, _ = p.run(context.Background(), "", text) // fails only where tokens are made
	v.IndexValues(p.values)
}
