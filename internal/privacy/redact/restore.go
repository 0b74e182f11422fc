package redact

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// Restorer replaces tokens that a model wrote by their values. Its zero value refuses.
type Restorer struct{ scope *scope }

// Text returns text of a model, such as the content of a file, with tokens replaced by
// values. In mode Strict tokens stay, because code could read the text.
func (r Restorer) Text(ctx context.Context, to, text string) (string, error) {
	if active, err := r.scope.active(); !active || r.scope.isStrict() {
		return text, err
	}
	return r.restore(ctx, to, text)
}

// Name is Text for names that code does not read. It restores in every mode, so that a
// file is found by the name that the model was shown.
func (r Restorer) Name(ctx context.Context, to, name string) (string, error) {
	if active, err := r.scope.active(); !active {
		return name, err
	}
	return r.restore(ctx, to, name)
}

// Variables is Text for the variables of code, in JSON. In mode Strict tokens become
// interpreter-local tokens.
func (r Restorer) Variables(ctx context.Context, vars json.RawMessage) (json.RawMessage, error) {
	if active, err := r.scope.active(); !active || len(vars) == 0 || !json.Valid(vars) {
		return vars, err
	}
	text, err := r.restore(ctx, ToCode, string(vars))
	return json.RawMessage(text), err
}

// Lookup returns the values of the tokens in source code, by token, and the tokens
// whose values are numbers; nil if there are none. In mode Strict the values are
// interpreter-local tokens.
func (r Restorer) Lookup(ctx context.Context, source string) (all map[string]string, numbers []string, err error) {
	if active, err := r.scope.active(); !active {
		return nil, nil, err
	}
	places := vault.FindTokens(source)
	if len(places) == 0 {
		return nil, nil, nil
	}
	known, err := r.open(ctx, places, source)
	if err == nil {
		err = r.authorize(ctx, ToCode, known)
	}
	if err != nil {
		return nil, nil, err
	}
	all = map[string]string{}
	for _, at := range places {
		token := source[at.Start:at.End]
		text := known.replacement(token, at)
		if _, present := all[token]; text == token || present {
			continue
		}
		if all[token] = text; known[vault.Token(token)].Number {
			numbers = append(numbers, token)
		}
	}
	return all, numbers, nil
}

// open returns the values of the tokens at the given positions.
func (r Restorer) open(ctx context.Context, places []vault.TokenSpan, text string) (tokenValues, error) {
	all, local := tokenValues{}, r.scope.owner.Local
	var asked []vault.Token
	for _, at := range places {
		t := vault.Token(text[at.Start:at.End])
		if at.Foreign > 0 {
			continue
		}
		if local.has(t) {
			all[t] = local.value(t)
			continue
		}
		asked = append(asked, t)
	}
	values, err := r.scope.vault().restore(ctx, asked)
	maps.Copy(all, values)
	return all, err
}

// authorize records that the values are restored. In mode Strict, for code, it replaces
// them by interpreter-local tokens instead.
func (r Restorer) authorize(ctx context.Context, to string, values tokenValues) error {
	if len(values) == 0 {
		return nil
	}
	if !r.scope.isStrict() || to != ToCode {
		return r.scope.record(ctx, values.transfer(to))
	}
	for t, v := range values {
		if r.scope.owner.Local == nil { // no interpreter: nothing may be restored
			delete(values, t)
			continue
		}
		values[t] = vault.Value{Type: v.Type, Text: string(r.scope.owner.Local.create(v))}
	}
	return nil
}

// restore returns text with tokens replaced by values.
func (r Restorer) restore(ctx context.Context, to, text string) (string, error) {
	places, holder := tokensIn(text)
	if len(places) == 0 {
		return text, nil
	}
	values, err := r.open(ctx, places, holder)
	if err == nil {
		err = r.authorize(ctx, to, values)
	}
	if err != nil {
		return "", err
	}
	return values.write(text, 0).String(), nil
}
