package policy

import (
	"context"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Rule says what is to become of some calls: those that fit all that it names.
type Rule struct {
	Name string // to be found again by; "" means its number
	Scope
	When     string // a condition in CEL; "" means always
	Decision Verdict
	Reason   string // for whoever asked for the call; may be ""
	At       string // where it stands, for messages
}

// Scope names calls. In names, * stands for any letters, also none.
type Scope struct {
	Tools   []string // "server.tool"; none means all
	Server  string   // "" means all
	Tenants []string // none means all
}

// fit is how a rule and a call go together.
type fit int

const (
	matches      fit = iota
	otherTool        // the rule is not of this tool,
	otherServer      // of this server,
	otherTenant      // of this tenant,
	conditionOff     // or its condition is false
	unsure           // its condition cannot be decided
)

// rule is a Rule that can be asked.
type rule struct {
	Rule
	label string
	scope scope
	when  *condition // nil holds always
}

type scope struct {
	tools, tenants []glob
	server         *glob
}

func (p *places) compile(r Rule, number string) (*rule, error) {
	c := &rule{Rule: r, label: number}
	err := checkName(r.Name)
	if r.Name != "" && err == nil {
		c.label = r.Name
		number += " (" + r.Name + ")"
	}
	if err == nil && strictness[r.Decision] == 0 {
		err = unknownVerdict(r.Decision)
	}
	if err == nil {
		c.scope, err = r.Scope.compile()
	}
	if err == nil && r.When != "" {
		c.when, err = p.condition(r.When)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s%s of the policy %s", place(r.At), number, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return c, nil
}

func unknownVerdict(v Verdict) error {
	if v == "" {
		return fault.New(fault.Invalid, "has no decision: write allow, ask or block")
	}
	e := fault.New(fault.Invalid, "has the decision %.40q; it must be allow, ask or block", v)
	if v == "deny" {
		return e.WithHint("here it is called block")
	}
	return e
}

// longestName of a rule.
const longestName = 80

// checkName refuses what would be taken for something else in a message.
func checkName(name string) error {
	switch {
	case len(name) > longestName || strings.ContainsFunc(name, unicode.IsControl):
		return fault.New(fault.Invalid, "has the name %.80q; one of at most %d bytes on one line is needed", name, longestName)
	case name == "default" || strings.HasPrefix(name, "rule ") || strings.HasPrefix(name, "budget ") || strings.HasPrefix(name, "project "):
		return fault.New(fault.Invalid, "has the name %q, which means something else", name)
	}
	return nil
}

func (s Scope) compile() (c scope, err error) {
	if c.tools, err = globs("tool", s.Tools); err != nil {
		return c, err
	}
	if c.tenants, err = globs("tenant", s.Tenants); err != nil {
		return c, err
	}
	for _, t := range s.Tools {
		if !strings.ContainsAny(t, ".*") {
			return c, fault.New(fault.Invalid, "has the tool %.80q, which matches none: write server.tool", t)
		}
	}
	if s.Server == "" {
		return c, nil
	}
	all, err := globs("server", []string{s.Server})
	if err == nil {
		c.server = &all[0]
	}
	return c, err
}

// of tells whether a tool is meant.
func (s scope) of(ref tool.Ref) fit {
	if s.server != nil && !s.server.match(ref.Server) {
		return otherServer
	}
	if len(s.tools) > 0 && !anyOf(s.tools, ref.String()) {
		return otherTool
	}
	return matches
}

// includes tells whether a call is meant.
func (s scope) includes(c *Call) fit {
	if how := s.of(c.Ref); how != matches {
		return how
	}
	return s.owner(c)
}

// owner tells whether whose call it is are meant.
func (s scope) owner(c *Call) fit {
	if len(s.tenants) > 0 && !anyOf(s.tenants, c.Tenant.String()) {
		return otherTenant
	}
	return matches
}

func (r *rule) decision() Decision { return Decision{r.Decision, r.label, r.Reason} }

// fits tells how the rule goes with a call of a tool that it is of.
func (r *rule) fits(ctx context.Context, f *facts) fit {
	if how := r.scope.owner(f.call); how != matches {
		return how
	}
	return r.when.holds(ctx, f)
}
