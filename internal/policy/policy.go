// Package policy decides on calls of tools: may this one happen?
//
// A Rule says of which calls (of tools, servers and tenants by name, and by a
// condition in CEL over what is known of the call) it is and what is to become of
// them; the first that matches decides, and the default where none does. What
// cannot be decided makes a decision stricter, never looser. A Budget bounds how
// many calls go on, whatever rules say.
//
// A Policy is immutable but for what it counts, which it keeps in memory, and safe
// for concurrent use. The package judges one call at a time by what it is given; it
// calls nothing, asks nobody and remembers no question.
package policy

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Verdict is what is to become of a call.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"   // a person has to say that it may be made
	Block Verdict = "block" // it is not made
)

// strictness orders the verdicts; it knows no others.
var strictness = map[Verdict]int{Allow: 1, Ask: 2, Block: 3}

// Call is a call as a policy sees it.
type Call struct {
	tool.Ref
	Tenant    tenant.ID
	Execution string          // whose code makes it; "" if none does
	Session   string          // of that; "" if there is none
	Hints     tool.Hints      // as far as they are believed
	Trusted   bool            // the server is
	Args      json.RawMessage // an object; checked against the schema, with values in place of tokens
}

// Decision is what a policy says of a call.
type Decision struct {
	Verdict Verdict `json:"decision"`
	Rule    string  `json:"rule"`             // that decided, as the operator knows it: its name, or "rule 3"; "default" if none did
	Reason  string  `json:"reason,omitempty"` // for whoever asked for the call; never a value of it
}

// stricter is the stricter of two decisions, and d if they are alike.
func (d Decision) stricter(other Decision) Decision {
	if strictness[other.Verdict] > strictness[d.Verdict] {
		return other
	}
	return d
}

// Config of a Policy.
type Config struct {
	Rules   []Rule   // the first that matches a call decides
	Budgets []Budget // each that a call is of has to have room
	// Default is for calls that no rule matches; "" means that tools marked
	// destructive are asked for, and all others allowed.
	Default Verdict
	// Project is the policy of a project's file; nil means none. Each call is judged
	// by both, and the stricter decision holds. Its Default "" means allow, and its
	// own Project is not looked at.
	Project *Config
}

// Policy decides.
type Policy struct {
	cfg     Config
	rules   []*rule
	budgets []*budget
	places  places // that conditions look at
	prefix  string // of the names of rules and budgets
	project *Policy

	mu    sync.Mutex
	known map[subject][]candidate // which rules can be of a tool
	kept  int                     // how many that are
	used  counters
}

// New returns a Policy, or says which rule or budget is wrong and why.
func New(cfg Config) (*Policy, error) {
	p := &Policy{cfg: cfg, known: map[subject][]candidate{}}
	if err := p.compile(""); err != nil {
		return nil, err
	}
	if cfg.Project == nil {
		return p, nil
	}
	project := *cfg.Project
	if project.Default == "" {
		project.Default = Allow
	}
	p.project = &Policy{cfg: project, prefix: "project ", known: map[subject][]candidate{}}
	if err := p.project.compile(p.project.prefix); err != nil {
		return nil, err
	}
	// Kept in one place, so that a call is counted in all budgets or in none.
	p.budgets = append(p.budgets, p.project.budgets...)
	p.project.budgets = nil
	return p, nil
}

// compile fills p with the rules and budgets of its Config. prefix begins their
// names.
func (p *Policy) compile(prefix string) error {
	names := map[string]string{}
	if p.cfg.Default != "" && strictness[p.cfg.Default] == 0 {
		return fault.New(fault.Invalid, "the default of the policy is %.40q: use allow, ask or block", p.cfg.Default)
	}
	for i, r := range p.cfg.Rules {
		one, err := p.places.compile(r, "rule "+strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		if err := once(names, one.label, r.At); err != nil {
			return err
		}
		one.label = prefix + one.label
		p.rules = append(p.rules, one)
	}
	for i, b := range p.cfg.Budgets {
		one, err := b.compile("budget " + strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		if err := once(names, one.label, b.At); err != nil {
			return err
		}
		one.label = prefix + one.label
		p.budgets = append(p.budgets, one)
	}
	return nil
}

// once refuses a name that stands at two places: whoever reads it in the audit log
// has to know what it means.
func once(names map[string]string, name, at string) error {
	if first, twice := names[name]; twice {
		return fault.New(fault.Invalid, "%sthe name %.80q is taken already%s", place(at), name, first)
	}
	names[name] = ""
	if at != "" {
		names[name] = ", at " + at
	}
	return nil
}

// place begins a sentence about what stands somewhere.
func place(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}

// Default is the policy before a rule is written.
func Default() *Policy { return &Policy{known: map[subject][]candidate{}} }

// Config is what the policy was made of.
func (p *Policy) Config() Config { return p.cfg }

// Decide says what is to become of a call. It counts nothing: see Take.
func (p *Policy) Decide(ctx context.Context, c Call) (Decision, error) {
	f := &facts{call: &c, places: p.places.all}
	d := p.judge(f, p.fitting(ctx, f))
	if f.wrong != nil {
		return Decision{}, f.wrong
	}
	if p.project != nil && d.Verdict != Block {
		stricter, err := p.project.Decide(ctx, c)
		if err != nil {
			return Decision{}, err
		}
		d = d.stricter(stricter)
	}
	if d.Verdict == Block {
		return d, nil
	}
	return d.stricter(p.room(&c)), nil
}

// judge goes by how rules fit a call, in their order.
//
// Where that is not certain, the call is judged as if the rule fitted and as if it
// did not, and the stricter of both holds.
func (p *Policy) judge(f *facts, rules iter.Seq2[*rule, fit]) Decision {
	least := Decision{Verdict: Allow}
	for r, how := range rules {
		switch how {
		case matches:
			return r.decision().stricter(least)
		case unsure:
			d := r.decision()
			d.Reason = undecided
			if least = least.stricter(d); least.Verdict == Block {
				return least
			}
		}
	}
	return p.fallback(f.call).stricter(least)
}

// undecided is the reason where a condition has no answer. What CEL says of it may
// hold values.
const undecided = "its condition cannot be decided for these arguments, so the call is treated as if it held"

// fallback decides where no rule does.
func (p *Policy) fallback(c *Call) Decision {
	switch {
	case p.cfg.Default != "":
		return Decision{p.cfg.Default, p.prefix + "default", ""}
	case is(c.Hints.Destructive):
		return Decision{Ask, "default", "the server calls this tool destructive"}
	}
	return Decision{Allow, "default", ""}
}

func is(hint *bool) bool { return hint != nil && *hint }

// subject is what is known of a tool, whoever calls it.
type subject struct {
	tool.Ref
	readOnly, destructive, idempotent, openWorld, trusted bool
}

func (c *Call) subject() subject {
	h := c.Hints
	return subject{c.Ref, h.Reads(), is(h.Destructive), is(h.Idempotent), is(h.OpenWorld), c.Trusted}
}

// mostKept bounds how many rules are kept with tools, 20 MB. A server that invents new
// tools all the time gains nothing.
const mostKept = 500_000

// candidate is a rule that can be of a tool. The first part of its condition stands
// beside it, since that is all that is looked at of most rules.
type candidate struct {
	*rule
	first part // without a test if there is none
}

// fitting are the rules that fit a call, or may.
func (p *Policy) fitting(ctx context.Context, f *facts) iter.Seq2[*rule, fit] {
	return func(yield func(*rule, fit) bool) {
		for _, c := range p.concerning(f) {
			if c.first.test != nil && c.first.holds(f) == conditionOff {
				continue
			}
			if how := c.fits(ctx, f); (how == matches || how == unsure) && !yield(c.rule, how) {
				return
			}
		}
	}
}

// concerning are the rules that can be of a call's tool, found once for each.
func (p *Policy) concerning(f *facts) []candidate {
	s := f.call.subject()
	p.mu.Lock()
	rules, ok := p.known[s]
	p.mu.Unlock()
	if ok {
		return rules
	}
	for _, r := range p.rules {
		if r.scope.of(f.call.Ref) != matches || !r.when.possible(f) {
			continue
		}
		c := candidate{rule: r}
		if r.when != nil && len(r.when.ofCall) > 0 {
			c.first = r.when.ofCall[0]
		}
		rules = append(rules, c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept += 1 + len(rules); p.kept > mostKept {
		clear(p.known)
		p.kept = 1 + len(rules)
	}
	p.known[s] = slices.Clip(rules)
	return rules
}
