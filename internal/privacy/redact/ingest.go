package redact

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// IngestResult prepares the answer of a server for code or a model. Text with the
// syntax of a token is marked as foreign, because only tokens of this vault may be
// restored. Values are added to the index, so that they are found wherever they leave
// later; in mode Strict they are replaced by interpreter-local tokens.
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

// IngestJSON is IngestResult for JSON.
func (e *Exit) IngestJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	// In an array, because a bare number would be scanned as text.
	list, err := e.IngestText(ctx, "["+string(raw)+"]")
	if err != nil {
		return nil, err
	}
	return json.RawMessage(list[1 : len(list)-1]), nil
}

// maxSyncScan is the size up to which a text is scanned before code gets it; longer
// texts are scanned while code runs.
const maxSyncScan = 32 << 10

// IngestText is IngestResult for one text.
func (e *Exit) IngestText(ctx context.Context, text string) (string, error) {
	if e.off() || text == "" {
		return text, nil
	}
	if e.Strict() && e.owner.Local != nil {
		p := &pass{search: search{find: e.findForCode, adjustKey: e.rules.cfg.Scanner.Person}} // without local: servers never receive interpreter-local tokens
		p.createTokens = func(_ context.Context, values []vault.Value) ([]vault.Token, error) {
			if v := e.owner.Vault; v != nil { // texts that do not pass through code may contain them too
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
	// A forged token may be written with escapes.
	if len(vault.FindTokens(text)) == 0 && !strings.Contains(text, `\u00`) {
		return text, nil
	}
	marks := &pass{search: search{find: findNothing}}
	return marks.run(ctx, "", text)
}

// findForCode returns the values that code may only see as tokens, including those
// that the interpreter has tokens for, wherever they occur.
func (e *Exit) findForCode(key, text string) []detect.Finding {
	return detect.Resolve(append(e.findPersonal(key, text), e.owner.Local.find(text)...), text)
}

// findPersonal returns what the detection rules find in a text, without exempt values.
func (e *Exit) findPersonal(key, text string) []detect.Finding {
	return finder{e, e.rules.isExempt}.detect(key, text)
}

// indexValues adds the values in a text to the index of the vault.
func (e *Exit) indexValues(v *vault.Vault, text string) {
	p := &pass{search: search{find: e.findPersonal, adjustKey: e.rules.cfg.Scanner.Person}}
	_, _ = p.run(context.Background(), "", text) // fails only when it creates tokens
	v.IndexValues(p.values)
}
