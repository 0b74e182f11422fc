package vault

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Tokenize returns the tokens of values, in order, and records that they are disclosed
// to the session; session "" discloses them to all of the tenant. The tokens are on
// disk when it returns. A value over a limit gets "[EMAIL_withheld]", which cannot be
// restored.
func (v *Vault) Tokenize(ctx context.Context, session string, values []Value) ([]Token, error) {
	if err := validateTypes(values); err != nil {
		return nil, err
	}
	if err := v.checkEpoch(ctx); err != nil {
		return nil, err
	}
	tokens, missing := v.lookupCached(session, values)
	if len(missing) == 0 {
		return tokens, nil
	}
	stored, err := v.store(ctx, session, missing)
	if err != nil {
		return nil, err
	}
	v.Index.Add(missing) // Index.Refresh may read them later
	for i, value := range values {
		if tokens[i] == "" {
			tokens[i] = stored[value]
		}
	}
	return tokens, nil
}

func validateTypes(values []Value) error {
	for _, value := range values {
		if !isType(string(value.Type)) {
			return fault.New(fault.Invalid, "%.60q cannot be a type of personal data: use 2 to 32 of A-Z, 0-9 and '_', starting with "+
				"a letter", string(value.Type))
		}
	}
	return nil
}

// lookupCached returns the tokens that are in the cache, and the values of the others
// without duplicates.
func (v *Vault) lookupCached(session string, values []Value) (tokens []Token, missing []Value) {
	now := v.cfg.Now()
	tokens = make([]Token, len(values))
	seen := make(map[Value]bool)
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	for i, value := range values {
		if len(value.Text) > maxText {
			tokens[i] = RedactedToken(value.Type)
		} else if e := v.cache.value(value); e != nil && v.cache.isDisclosed(e, session) && !v.lifetimes.needNewExpiry(value.Type,
			e.expires, now) {
			tokens[i] = e.token
		} else if !seen[value] {
			seen[value] = true
			missing = append(missing, value)
		}
	}
	return tokens, missing
}
