package redact

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Decision on values that would be sent to a tool.
type Decision string

const (
	Allow Decision = "allow"
	Deny  Decision = "deny"
)

// Flow is a rule for values that are sent to tools.
type Flow struct {
	Types    []detect.Type // none: every type
	To       string        // "server.tool", where * matches any letters; "": every tool
	Args     []string      // names of arguments; none: all
	Decision Decision
}

func (f Flow) validate() error {
	if f.Decision != Allow && f.Decision != Deny {
		return fault.New(fault.Invalid, "decision %.40q is not valid: use allow or deny", f.Decision)
	}
	if _, err := path.Match(f.To, ""); err != nil {
		return fault.New(fault.Invalid, "pattern %.80q is not valid: write server.tool, where * matches any letters", f.To)
	}
	return nil
}

func (f Flow) matches(ref tool.Ref, arg string, t detect.Type) bool {
	if len(f.Types) > 0 && !slices.Contains(f.Types, t) || len(f.Args) > 0 && !slices.Contains(f.Args, arg) {
		return false
	}
	// Names of tools may contain slashes, which * of a pattern does not match.
	match, err := path.Match(strings.ReplaceAll(f.To, "/", "\x00"), strings.ReplaceAll(ref.String(), "/", "\x00"))
	return f.To == "" || err == nil && match
}

// load identifies values in one argument of a call.
type load struct {
	arg     string
	typ     detect.Type
	asToken bool // the argument contains them as tokens
}

// allows decides about values of one type in one argument. Without a matching rule,
// values that code or the model has may go to every tool, and tokens may in mode
// Egress only.
func (r *Rules) allows(ref tool.Ref, c load) bool {
	return r.allowsBy(r.cfg.Flows, ref, c) && (r.cfg.Project == nil || r.allowsBy(r.cfg.Project, ref, c))
}

func (r *Rules) allowsBy(flows []Flow, ref tool.Ref, c load) bool {
	for _, f := range flows {
		if f.matches(ref, c.arg, c.typ) {
			return f.Decision == Allow
		}
	}
	return !c.asToken || r.cfg.Mode != Strict
}

// Restore returns the arguments of a call with tokens replaced by values, or a Denied
// error that names the argument and type. Allowed transfers are recorded.
func (e *Exit) Restore(ctx context.Context, ref tool.Ref, args json.RawMessage) (json.RawMessage, error) {
	if e.off() || !json.Valid(args) {
		return args, nil
	}
	text := string(args)
	places, holder := e.tokensIn(text)
	r, err := e.restorer(ctx, places, holder)
	if err != nil {
		return nil, err
	}
	loads := e.countValues(text, r)
	if len(loads) == 0 && len(places) == 0 {
		return args, nil
	}
	crossing := r.transfer(ref.String())
	for c, n := range loads {
		if !c.asToken {
			crossing.Types[string(c.typ)] += n
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(loads), func(a, b load) int { return strings.Compare(a.arg+string(a.typ), b.arg+string(b.typ)) }) {
		if !e.rules.allows(ref, c) {
			crossing.Denied = true
			return nil, denied(ref, c, e.record(ctx, crossing))
		}
	}
	if len(crossing.Types) > 0 {
		if err := e.record(ctx, crossing); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "%s was not called: the transfer of values to it could not be recorded", ref)
		}
	}
	return json.RawMessage(r.write(text, 0).String()), nil
}

func denied(ref tool.Ref, c load, unrecorded error) error {
	if unrecorded != nil {
		return unrecorded
	}
	return fault.New(fault.Denied, "%s was not called: policy denies %[3]s in its argument %[2]q", ref, c.arg, c.typ).
		WithHint("the operator can allow it with pii.flows: [{types: [%s], to: %q, decision: allow}]", c.typ, ref.String())
}

// countValues counts the values in arguments.
func (e *Exit) countValues(args string, r restorer) map[load]int {
	all := map[load]int{}
	var lits []literal
	literals(args, func(l literal) {
		lits = append(lits, l)
		if len(r.values) == 0 || l.number {
			return
		}
		places, holder := e.tokensIn(unquote(args[l.start:l.end]))
		for _, p := range places {
			if v, ok := r.values[vault.Token(holder[p.Start:p.End])]; ok && p.Foreign == 0 {
				all[load{l.arg, v.Type, true}]++
			}
		}
	})
	for _, f := range detect.Resolve(append(e.detect("", args), e.findKnown(args)...), args) {
		if i := literalAt(lits, f.Start); i < len(lits) && lits[i].start < f.End {
			all[load{lits[i].arg, f.Type, false}]++
		}
	}
	return all
}
