package redact

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Args returns the arguments of a call with tokens replaced by values, or a Denied
// error that names the argument and type. Allowed transfers are recorded.
func (r Restorer) Args(ctx context.Context, ref tool.Ref, args json.RawMessage) (json.RawMessage, error) {
	if active, err := r.scope.active(); !active || !json.Valid(args) {
		return args, err
	}
	text := decodeEscapes(string(args))
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
	for _, c := range slices.SortedFunc(maps.Keys(loads), func(a, b load) int { return strings.Compare(a.arg+string(a.typ), b.arg+string(b.typ)) }) {
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

// countLoads counts the values in arguments.
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
	for _, f := range detect.Resolve(append(r.scope.rules.cfg.Scanner.Detect("", args), r.scope.vault().find(args)...), args) {
		if i := literalAt(places, f.Start); i < len(places) && places[i].start < f.End {
			all[load{names[i], f.Type, false}]++
		}
	}
	return all
}
