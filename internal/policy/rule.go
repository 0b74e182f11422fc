package policy

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
)

// Rule is a verdict for the calls that match its Scope and its condition, or the sandbox that
// they require, or both.
type Rule struct {
	Name string `key:"name"` // in messages and the audit log; "" means "rule" and its number
	Scope
	When     string  `key:"when,nonempty"`    // a condition in CEL; "" means always
	Decision Verdict `key:"decision"`         // "" if there is a Sandbox: then the rule decides nothing
	Sandbox  string  `key:"sandbox,nonempty"` // in which code must run to make the calls, of Config.Sandboxes; "" means any
	Reason   string  `key:"reason"`           // for the caller; may be ""
	At       string  `key:"@"`                // file and line, for messages
}

// Scope selects calls by patterns, in which * matches any characters, also none.
type Scope struct {
	Tools   []string `key:"tool" form:"one or more"`   // "server.tool"; empty means all
	Server  string   `key:"server,nonempty"`           // "" means all
	Tenants []string `key:"tenant" form:"one or more"` // empty means all
}

// fit is whether a rule matches a call, and if not, why.
type fit int

const (
	matches fit = iota
	otherTool
	otherServer
	otherTenant
	conditionFalse
	undecided // the condition has no answer
)

// rule is a compiled Rule.
type rule struct {
	Rule
	index   int // in the Config, from 0
	label   string
	sandbox Sandbox
	scope   scope
	when    *condition
}

// scope is a compiled Scope.
type scope struct {
	tools, tenants []glob.Pattern
	server         *glob.Pattern
}

func (r Rule) compile(index int, sandboxes []Sandbox) (*rule, error) {
	number := "rule " + strconv.Itoa(index+1)
	c := &rule{Rule: r, index: index, label: number}
	err := checkName(r.Name)
	if r.Name != "" && err == nil {
		c.label = r.Name
		number += " (" + r.Name + ")"
	}
	if err == nil && strictness[r.Decision] == 0 && (r.Decision != "" || r.Sandbox == "") {
		err = invalidVerdict(r.Decision)
	}
	if err == nil {
		c.sandbox, err = sandboxNamed(r.Sandbox, sandboxes)
	}
	if err == nil {
		c.scope, err = r.Scope.compile()
	}
	if err == nil && r.When != "" {
		c.when, err = compileCondition(r.When)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s%s of the policy %s", location(r.At), number, fault.Message(err)).
			WithHint("%s", fault.Hint(err))
	}
	return c, nil
}

func invalidVerdict(v Verdict) error {
	if v == "" {
		return fault.New(fault.Invalid, "has no decision: write allow, ask or block")
	}
	e := fault.New(fault.Invalid, "has the decision %.40q; it must be allow, ask or block", v)
	if v == "deny" {
		return e.WithHint("write block instead of deny")
	}
	return e
}

const maxNameBytes = 80

// checkName rejects names that a message or the audit log could confuse with a label.
func checkName(name string) error {
	switch {
	case len(name) > maxNameBytes || strings.ContainsFunc(name, unicode.IsControl):
		return fault.New(fault.Invalid, "has the name %.80q; a name is one line of at most %d bytes", name, maxNameBytes)
	case name == "default" || strings.HasPrefix(name, "rule ") || strings.HasPrefix(name, "budget ") || strings.HasPrefix(name, "project "):
		return fault.New(fault.Invalid, "has the name %q, which is reserved", name)
	}
	return nil
}

func (s Scope) compile() (c scope, err error) {
	if c.tools, err = glob.Parse("tool", s.Tools); err != nil {
		return c, err
	}
	if c.tenants, err = glob.Parse("tenant", s.Tenants); err != nil {
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
	all, err := glob.Parse("server", []string{s.Server})
	if err == nil {
		c.server = &all[0]
	}
	return c, err
}

// literalTools returns the distinct tool names of a scope that has only such without *.
func (s scope) literalTools() (names []string, ok bool) {
	for _, g := range s.tools {
		if !g.Literal() {
			return nil, false
		}
		if !slices.Contains(names, g[0]) {
			names = append(names, g[0])
		}
	}
	return names, len(names) > 0
}

// matchTool reports whether the scope includes a tool with the name "server.tool".
func (s scope) matchTool(server, fullName string) fit {
	if s.server != nil && !s.server.Match(server) {
		return otherServer
	}
	if len(s.tools) > 0 && !glob.MatchAny(s.tools, fullName) {
		return otherTool
	}
	return matches
}

// match reports whether the scope includes a call.
func (s scope) match(c *Call, fullName string) fit {
	if how := s.matchTool(c.Server, fullName); how != matches {
		return how
	}
	if len(s.tenants) > 0 && !glob.MatchAny(s.tenants, c.Tenant.String()) {
		return otherTenant
	}
	return matches
}

// decides reports whether the rule has a verdict.
func (r *rule) decides() bool { return r.Rule.Decision != "" }

func (r *rule) decision() Decision { return Decision{r.Decision, r.label, r.Reason} }

// fits reports whether the rule matches a call. The error is why that is undecided.
func (r *rule) fits(ctx context.Context, e *evaluation) (fit, error) {
	if how := r.scope.match(e.call, e.fullName); how != matches {
		return how, nil
	}
	return r.when.eval(ctx, e)
}
