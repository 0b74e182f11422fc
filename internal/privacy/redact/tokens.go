package redact

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

var errOff = fault.New(fault.Unavailable, "privacy is off: there are no tokens").WithHint("the operator can set pii.mode to egress")

// Tokens replaces values by tokens, and tokens by values or other tokens, where the
// model or its code requests it. Its zero value refuses.
type Tokens struct{ scope *scope }

// manyValues is the number of values for which Sanitize checks its quota before it does anything
// else with them.
const manyValues = 1000

// Sanitize is Gate.Tokenize on request of the model or its code. It also returns the
// value of each token that it created, in mode Strict the type instead. An hourly quota
// limits it, because tokenizing guesses would reveal the value of a token.
func (t Tokens) Sanitize(ctx context.Context, text string) (string, map[string]string, error) {
	active, err := t.scope.active()
	switch {
	case err != nil:
		return "", nil, err
	case !active || t.scope.owner.Vault == nil:
		return "", nil, errOff
	}
	if err := t.scope.vault().refreshIndex(ctx); err != nil {
		return "", nil, err
	}
	p := t.scope.redactionFor(t.scope.findAll())
	consumed := 0
	if t.scope.owner.Local == nil {
		p.check = func(n int) error { // perhaps several times, for parts of the text and again after learning
			if n < manyValues || n <= consumed {
				return nil
			}
			n, consumed = n-consumed, n
			return t.scope.owner.Vault.ConsumeQuota(ctx, n)
		}
	}
	if disclosed := p.disclosed; disclosed != nil { // the marks of foreign tokens show which ones exist
		p.disclosed = func(ctx context.Context, tokens []vault.Token) (map[vault.Token]bool, error) {
			known, err := disclosed(ctx, tokens)
			if err == nil {
				err = vault.CountGuesses(t.scope.owner.Vault, tokens, known)
			}
			return known, err
		}
	}
	p.createTokens = func(ctx context.Context, values []vault.Value) ([]vault.Token, error) {
		if t.scope.owner.Local != nil {
			return t.scope.owner.Local.createAll(values), nil
		}
		if err := t.scope.owner.Vault.ConsumeQuota(ctx, max(0, len(values)-consumed)); err != nil {
			return nil, err
		}
		return t.scope.vault().createTokens(ctx, values)
	}
	text, err = p.run(ctx, "", text)
	all := map[string]string{}
	for i, token := range p.tokens {
		all[string(token)] = p.values[i].Text
		if t.scope.isStrict() {
			all[string(token)] = string(p.values[i].Type)
		}
	}
	return text, all, err
}

// Promote returns text with interpreter-local tokens replaced by tokens of the vault,
// for readers outside the interpreter. Nothing else changes.
func (t Tokens) Promote(ctx context.Context, text string) (string, error) {
	if active, err := t.scope.active(); !active || t.scope.owner.Local == nil {
		return text, err
	}
	p := &redaction{
		turn:     t.scope.turn,
		search:   search{find: findNothing},
		replacer: replacer{createTokens: t.scope.vault().createTokens, keepForeign: true, local: t.scope.owner.Local},
	}
	return p.run(ctx, "", text)
}

// Detokenize returns text with tokens replaced by values, on request of code. In mode
// Strict it returns the text unchanged.
func (t Tokens) Detokenize(ctx context.Context, text string) (string, error) {
	active, err := t.scope.active()
	switch {
	case err != nil:
		return "", err
	case !active:
		return "", errOff
	case t.scope.isStrict():
		return text, nil
	}
	return Restorer(t).restore(ctx, ToCode, text)
}
