package redact

import (
	"context"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// vaultSession is a tenant's vault as one session uses it. Without a vault no value is
// known and every value is redacted.
type vaultSession struct {
	vault   *vault.Vault // nil: none
	session string       // "": none
}

func (v vaultSession) refreshIndex(ctx context.Context) error {
	if v.vault == nil {
		return nil
	}
	return v.vault.Index.Refresh(ctx)
}

// find returns the positions of values that the vault has stored or indexed.
func (v vaultSession) find(text string) []detect.Finding {
	if v.vault == nil {
		return nil
	}
	return v.vault.Index.Find(text)
}

func (v vaultSession) findSqueezed(text string, gaps []int) []detect.Finding {
	if v.vault == nil {
		return nil
	}
	return v.vault.Index.FindSqueezed(text, gaps)
}

// disclosed returns which tokens the session already has.
func (v vaultSession) disclosed(ctx context.Context, t []vault.Token) (map[vault.Token]bool, error) {
	if v.vault == nil {
		return nil, nil
	}
	return v.vault.Disclosed(ctx, v.session, t)
}

// index adds values to the index of the vault.
func (v vaultSession) index(values []vault.Value) {
	if v.vault != nil {
		v.vault.Index.Add(values)
	}
}

// learn adds values to the index of the vault and reports whether any of them was new.
func (v vaultSession) learn(values []vault.Value) bool {
	if v.vault == nil {
		return false
	}
	values = slices.DeleteFunc(values, v.isKnown)
	v.index(values)
	return slices.ContainsFunc(values, v.isKnown) // short values and lower-case words are never indexed
}

func (v vaultSession) isKnown(one vault.Value) bool {
	return slices.ContainsFunc(v.find(one.Text), func(f detect.Finding) bool { return f.Start == 0 && f.End == len(one.Text) })
}

// exceptionsFor returns the stored exceptions for a value.
func (v vaultSession) exceptionsFor(value string) []vault.Exception {
	if v.vault == nil {
		return nil
	}
	return v.vault.Exceptions.For(value)
}

// createTokens returns tokens of the vault for values. Without a vault nothing could
// be restored, so the values are redacted.
func (v vaultSession) createTokens(ctx context.Context, values []vault.Value) ([]vault.Token, error) {
	if v.vault == nil {
		all := make([]vault.Token, len(values))
		for i, one := range values {
			all[i] = vault.RedactedToken(one.Type)
		}
		return all, nil
	}
	return v.vault.Tokenize(ctx, v.session, values)
}

// restore returns the values of tokens that the session may restore.
func (v vaultSession) restore(ctx context.Context, tokens []vault.Token) (map[vault.Token]vault.Value, error) {
	if v.vault == nil || len(tokens) == 0 {
		return nil, nil
	}
	return v.vault.Restore(ctx, v.session, tokens)
}
