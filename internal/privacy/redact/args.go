package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Args returns the arguments of a call, or of another request to a server, with tokens replaced
// by values, or a Denied error that names the argument and type. It decides about everything that
// is sent to servers and hosts. Allowed transfers are recorded.
func (r Restorer) Args(ctx context.Context, ref tool.Ref, args json.RawMessage) (json.RawMessage, error) {
	if active, err := r.scope.active(); !active || !json.Valid(args) {
		return args, err
	}
	text := decodeEscapes(string(args))
	done, err := r.scope.turn(ctx, len(text))
	if err != nil {
		return nil, err
	}
	defer done()
	places, holder := tokensIn(text)
	values, err := r.open(ctx, places, holder)
	if err != nil {
		return nil, err
	}
	loads := r.countLoads(text, values)
	if len(loads) == 0 && len(places) == 0 {
		return args, nil
	}
	crossing := values.transfer(ref.String())
	for c, n := range loads {
		if !c.asToken {
			crossing.Types[string(c.typ)] += n
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(loads), func(a,
		b load) int {
		return strings.Compare(a.arg+string(a.typ), b.arg+string(b.typ))
	}) {
		if !r.scope.rules.allows(ref, c) {
			crossing.Denied = true
			return nil, denied(ref, c, r.scope.record(ctx, crossing))
		}
	}
	if len(crossing.Types) > 0 {
		if err := r.scope.record(ctx, crossing); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "%s was not called: the transfer of values to it could not be recorded", ref)
		}
	}
	return json.RawMessage(values.write(text, 0).String()), nil
}

func denied(ref tool.Ref, c load, unrecorded error) error {
	if unrecorded != nil {
		return unrecorded
	}
	return fault.New(fault.Denied, "%s was not called: policy denies %[3]s in its argument %[2]q", ref, c.arg, c.typ).
		WithHint("the operator can allow it with pii.flows: [{types: [%s], to: %q, decision: allow}]", c.typ, ref.String())
}

// countLoads counts the values in arguments, as they are and as the gate to a model finds them
// encoded, in JSON in strings, and over several strings of a list.
func (r Restorer) countLoads(args string, values tokenValues) map[load]int {
	all := map[load]int{}
	var places []place
	var names []string // of the argument at each place
	literals(args, func(l literal) {
		places, names = append(places, l.place()), append(names, l.arg)
		if len(values) == 0 || l.number {
			return
		}
		tokens, holder := tokensIn(unquote(args[l.start:l.end]))
		for _, p := range tokens {
			if v, ok := values[vault.Token(holder[p.Start:p.End])]; ok && p.Foreign == 0 {
				all[load{l.arg, v.Type, true}]++
			}
		}
	})
	f := r.scope.findAll()
	p := redaction{search: search{find: f.find, findSpread: f.findSpread, foreign: true}}
	p.scan("", args, 0)
	for _, one := range mergeOverlaps(p.found) {
		view, at := one.parts[0].view, one.parts[0].start
		for view.outer != nil {
			view, at = view.outer, view.at
		}
		if i := literalAt(places, at); i < len(places) {
			all[load{names[i], one.typ, false}]++
		}
	}
	return all
}

// Texts is Args for arguments that are texts.
func (r Restorer) Texts(ctx context.Context, ref tool.Ref, args map[string]string) (map[string]string, error) {
	raw, err := json.Marshal(args)
	if err != nil || len(args) == 0 {
		return args, err
	}
	if raw, err = r.Args(ctx, ref, raw); err != nil {
		return nil, err
	}
	var values map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // the value of a token may be a number
	if err := dec.Decode(&values); err != nil {
		return nil, err
	}
	restored := make(map[string]string, len(values))
	for k, v := range values {
		restored[k] = fmt.Sprint(v)
	}
	return restored, nil
}

// URI is Args for a URI, in which clients may escape the brackets of tokens.
func (r Restorer) URI(ctx context.Context, ref tool.Ref, uri string) (string, error) {
	plain := UnescapeTokens(uri)
	args, err := r.Texts(ctx, ref, map[string]string{"uri": plain})
	if err != nil || args["uri"] == plain {
		return uri, err
	}
	return args["uri"], nil
}

// Match returns text with tokens replaced by values, to compare it with known texts. It must
// not be shown or sent: it is not recorded.
func (r Restorer) Match(ctx context.Context, text string) (string, error) {
	if active, err := r.scope.active(); !active {
		return text, err
	}
	places, holder := tokensIn(text)
	values, err := r.open(ctx, places, holder)
	if err != nil || len(places) == 0 {
		return text, err
	}
	return values.write(text, 0).String(), nil
}

var escapedBrackets = strings.NewReplacer("%5B", "[", "%5b", "[", "%5D", "]", "%5d", "]", "%7E", "~", "%7e", "~")

// UnescapeTokens returns a URI with the brackets of tokens as they are.
func UnescapeTokens(uri string) string { return escapedBrackets.Replace(uri) }
