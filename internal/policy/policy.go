// Package policy decides whether a call of a tool is allowed, needs approval, or is
// blocked.
//
// A Rule selects calls by tool, server, tenant and a CEL condition, and has a
// verdict; the first rule that matches decides, and the default if none does. What
// cannot be decided makes a decision stricter, never looser. A rule may also require
// the sandbox of the code that makes a call; the strongest requirement of all rules that
// match counts. A Budget limits the number of calls, whatever the rules decide.
//
// A Policy is immutable except for its counters, which are in memory, and safe for
// concurrent use. The package judges one call at a time. It makes no calls, asks for
// no approvals and stores no questions.
package policy

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Verdict is the outcome for a call.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"   // a person has to approve the call
	Block Verdict = "block" // the call is not made
)

// strictness orders the verdicts. Other verdicts are invalid.
var strictness = map[Verdict]int{Allow: 1, Ask: 2, Block: 3}

// Call is the input of a decision.
type Call struct {
	tool.Ref
	Tenant    tenant.ID
	Execution string          // whose code makes the call; "" if a client does
	Session   string          // of the execution; "" if it has none
	Hints     tool.Hints      // the trusted ones
	Trusted   bool            // whether the server is trusted
	Args      json.RawMessage // an object that matches the schema, with values in place of tokens
}

// Decision is the result of a policy for one call.
type Decision struct {
	Verdict Verdict `json:"decision"`
	Rule    string  `json:"rule"`             // that decided: its name, or "rule 3"; "default" if none did
	Reason  string  `json:"reason,omitempty"` // for the caller; never contains a value of the call
}

// Stricter returns the stricter of two decisions, and d if they are equally strict.
func (d Decision) Stricter(other Decision) Decision {
	if strictness[other.Verdict] > strictness[d.Verdict] {
		return other
	}
	return d
}

// Config of a Policy.
type Config struct {
	Rules   []Rule   `key:"rules" project:"done"`   // the first that matches a call decides
	Budgets []Budget `key:"budgets" project:"done"` // all that include a call must have a call left
	// Default is the verdict if no rule matches; "" means Ask for tools marked
	// destructive and Allow for all others.
	Default Verdict `key:"default" allow:"allow ask block" project:"done"`
	// Sandboxes are those that rules may require.
	Sandboxes []Sandbox
	// Project is the policy of a project's file; nil means none. Each call is judged
	// by both policies, and the stricter decision counts. Its Default "" means Allow,
	// and its own Project and Sandboxes are ignored.
	Project *Config
}

// Policy decides about calls.
type Policy struct {
	cfg     Config
	rules   []*rule
	byTool  map[string][]*rule // rules that name only tools without *, by "server.tool"; in order
	general []*rule            // all other rules, in order
	// isolating are the rules that require a sandbox, in order. Those of them without a
	// verdict are neither in byTool nor in general.
	isolating []*rule
	budgets   []*budget
	prefix    string // of the labels of rules and budgets
	project   *Policy

	used *counters
}

// New compiles a Policy. The error names the first invalid rule or budget.
func New(cfg Config) (*Policy, error) {
	p := &Policy{cfg: cfg, used: &counters{}}
	if err := p.compile(); err != nil {
		return nil, err
	}
	if cfg.Project == nil {
		return p, nil
	}
	project := *cfg.Project
	project.Sandboxes = cfg.Sandboxes
	if project.Default == "" {
		project.Default = Allow
	}
	p.project = &Policy{cfg: project, prefix: "project ", used: &counters{}}
	if err := p.project.compile(); err != nil {
		return nil, err
	}
	// One list of budgets, so that a call is counted in all or in none.
	p.budgets = append(p.budgets, p.project.budgets...)
	p.project.budgets = nil
	return p, nil
}

// compile compiles the rules and budgets of the Config.
func (p *Policy) compile() error {
	names := map[string]string{}
	if p.cfg.Default != "" && strictness[p.cfg.Default] == 0 {
		return fault.New(fault.Invalid, "the default of the policy is %.40q: use allow, ask or block", p.cfg.Default)
	}
	for i, r := range p.cfg.Rules {
		one, err := r.compile(i, p.cfg.Sandboxes)
		if err != nil {
			return err
		}
		if err := checkUnique(names, one.label, r.At); err != nil {
			return err
		}
		one.label = p.prefix + one.label
		p.rules = append(p.rules, one)
		p.index(one)
	}
	for i, b := range p.cfg.Budgets {
		one, err := b.compile("budget " + strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		if err := checkUnique(names, one.label, b.At); err != nil {
			return err
		}
		one.label = p.prefix + one.label
		p.budgets = append(p.budgets, one)
	}
	return nil
}

// index adds a rule to the lists that are searched for a call.
func (p *Policy) index(r *rule) {
	if r.Sandbox != "" {
		p.isolating = append(p.isolating, r)
	}
	if !r.decides() {
		return
	}
	names, ok := r.scope.literalTools()
	if !ok {
		p.general = append(p.general, r)
		return
	}
	if p.byTool == nil {
		p.byTool = map[string][]*rule{}
	}
	for _, name := range names {
		p.byTool[name] = append(p.byTool[name], r)
	}
}

// checkUnique rejects a name that is used twice: the audit log identifies rules by it.
func checkUnique(names map[string]string, name, at string) error {
	if first, twice := names[name]; twice {
		return fault.New(fault.Invalid, "%sthe name %.80q is already used%s", location(at), name, first)
	}
	names[name] = ""
	if at != "" {
		names[name] = ", at " + at
	}
	return nil
}

// location returns the beginning of a message about an item of a file; "" if at is "".
func location(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}

// Default returns the policy without rules and budgets.
func Default() *Policy { return &Policy{used: &counters{}} }

// Config returns the Config that New was called with.
func (p *Policy) Config() Config { return p.cfg }

// Decide returns the decision on a call. It does not count the call: see Take.
func (p *Policy) Decide(ctx context.Context, c Call) (Decision, error) {
	e := newEvaluation(&c)
	defer e.close()
	d := p.judge(&c, p.fitting(ctx, e))
	if e.argsErr != nil {
		return Decision{}, e.argsErr
	}
	if p.project != nil && d.Verdict != Block {
		project, err := p.project.Decide(ctx, c)
		if err != nil {
			return Decision{}, err
		}
		d = d.Stricter(project)
	}
	if d.Verdict == Block {
		return d, nil
	}
	return d.Stricter(p.checkBudgets(&c)), nil
}

// judge returns the decision of rules, which are in order.
//
// If it cannot be decided whether a rule matches, the call is judged both as if the
// rule matched and as if it did not, and the stricter decision counts.
func (p *Policy) judge(c *Call, rules iter.Seq2[*rule, fit]) Decision {
	least := Decision{Verdict: Allow}
	for r, how := range rules {
		switch how {
		case matches:
			return r.decision().Stricter(least)
		case undecided:
			d := r.decision()
			d.Reason = reasonUndecided
			if least = least.Stricter(d); least.Verdict == Block {
				return least
			}
		}
	}
	return p.defaultDecision(c).Stricter(least)
}

// reasonUndecided is the reason if a condition has no answer. The error of CEL is not
// used: it may contain values.
const reasonUndecided = "its condition cannot be decided for these arguments, so the call is treated as if it held"

// defaultDecision is the decision if no rule matches.
func (p *Policy) defaultDecision(c *Call) Decision {
	switch {
	case p.cfg.Default != "":
		return Decision{p.cfg.Default, p.prefix + "default", ""}
	case isTrue(c.Hints.Destructive):
		return Decision{Ask, "default", "the server marks this tool as destructive"}
	}
	return Decision{Allow, "default", ""}
}

func isTrue(hint *bool) bool { return hint != nil && *hint }

// fitting returns the rules that match a call or may match it, in order.
func (p *Policy) fitting(ctx context.Context, e *evaluation) iter.Seq2[*rule, fit] {
	return func(yield func(*rule, fit) bool) {
		named, general := p.byTool[e.fullName], p.general
		for len(named)+len(general) > 0 {
			from := &general
			if len(general) == 0 || len(named) > 0 && named[0].index < general[0].index {
				from = &named
			}
			r := (*from)[0]
			*from = (*from)[1:]
			if how, _ := r.fits(ctx, e); (how == matches || how == undecided) && !yield(r, how) {
				return
			}
		}
	}
}
