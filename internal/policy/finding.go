package policy

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Finding is something about a policy that its author can hardly have meant.
type Finding struct {
	Rule string `json:"rule"` // or budget
	At   string `json:"at,omitempty"`
	Text string `json:"text"`
}

func (f Finding) String() string { return place(f.At) + f.Rule + " of the policy " + f.Text }

// Known is what there is for a policy to be about.
type Known struct {
	Servers []string            // all that are configured
	Tools   map[string][]string // of those servers whose tools are known
}

// Findings says which rules and budgets can never match, and which match more than
// they seem to. Only what is sure is said.
func (p *Policy) Findings(k Known) (all []Finding) {
	for i, r := range p.rules {
		if text := p.odd(i, k); text != "" {
			all = append(all, Finding{r.label, r.At, text})
		}
	}
	for _, b := range p.budgets {
		if text := k.nothing(b.scope, p.reached(b.scope, nil, k)); text != "" {
			all = append(all, Finding{b.label, b.At, text})
		}
	}
	if p.project != nil {
		all = append(all, p.project.Findings(k)...)
	}
	return all
}

// odd says what is odd about a rule, "" if nothing is.
func (p *Policy) odd(i int, k Known) string {
	r := p.rules[i]
	if r.when != nil && r.when.never {
		return "can never match: its condition is false, whatever the call is"
	}
	reached := p.reached(r.scope, r.when, k)
	if text := k.nothing(r.scope, reached); text != "" {
		return text
	}
	var before []string
	for _, server := range reached {
		j := slices.IndexFunc(p.rules[:i], func(earlier *rule) bool { return earlier.covers(r, server) })
		if j < 0 {
			return p.greedy(r)
		}
		before = append(before, p.rules[j].label)
	}
	if len(before) == 0 {
		return p.greedy(r)
	}
	slices.Sort(before)
	return "can never match: " + few(slices.Compact(before)) + " before it decides all that it is about"
}

// reached are the servers that a rule or budget may be about.
func (p *Policy) reached(s scope, when *condition, k Known) (all []string) {
	for _, server := range k.Servers {
		if s.server != nil && !s.server.match(server) {
			continue
		}
		if len(s.tools) > 0 && !slices.ContainsFunc(s.tools, func(g glob) bool { return g.reaches(server + ".") }) {
			continue
		}
		if when == nil || !slices.ContainsFunc(when.ofTool, func(one part) bool { return p.rulesOut(one, server) }) {
			all = append(all, server)
		}
	}
	return all
}

// rulesOut tells whether a part of a condition is about other servers.
func (p *Policy) rulesOut(one part, server string) bool {
	f := &facts{call: &Call{Ref: tool.Ref{Server: server}}, places: p.places.all}
	return p.places.all[one.place].variable == "tool.server" && one.holds(f) != matches
}

// nothing says that a rule or budget is about nothing that there is.
func (k Known) nothing(s scope, reached []string) string {
	if len(k.Servers) == 0 {
		return ""
	}
	if len(reached) == 0 {
		return "can never match: it is about no server that is configured (" + few(k.Servers) + ")"
	}
	for _, server := range reached {
		tools, ok := k.Tools[server]
		if !ok || slices.ContainsFunc(tools, func(name string) bool { return s.of(tool.Ref{Server: server, Tool: name}) == matches }) {
			return ""
		}
	}
	return "matches no tool that " + few(reached) + " have now"
}

// few are names, not too many.
func few(names []string) string {
	const most = 5
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += " …"
	}
	return text
}

// covers tells whether a rule decides all calls of a server that a later one is
// about.
func (r *rule) covers(later *rule, server string) bool {
	if r.when != nil || r.scope.server != nil && !r.scope.server.match(server) {
		return false
	}
	tools := later.scope.tools
	if len(tools) == 0 {
		tools = []glob{{server + ".", ""}}
	}
	for _, g := range tools {
		if g.reaches(server+".") && !coveredBy(r.scope.tools, g) {
			return false
		}
	}
	if len(later.scope.tenants) == 0 {
		return len(r.scope.tenants) == 0
	}
	return !slices.ContainsFunc(later.scope.tenants, func(g glob) bool { return !coveredBy(r.scope.tenants, g) })
}

// coveredBy tells whether a pattern is covered by one of several; none are all.
func coveredBy(all []glob, g glob) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(wide glob) bool { return wide.covers(g) })
}

// greedy says that a rule about all tools has no answer for most of them.
func (p *Policy) greedy(r *rule) string {
	if r.when == nil || r.Rule.Decision == Allow || len(r.Tools) > 0 || r.Server != "" || len(r.when.ofTool) > 0 {
		return ""
	}
	if r.when.holds(context.Background(), &facts{call: &Call{}, places: p.places.all}) != unsure {
		return ""
	}
	return "is about all tools, and holds for each that lacks an argument its condition looks at; name tools, or write has(args.x) && … before"
}
