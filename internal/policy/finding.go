package policy

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
)

// Finding is a likely mistake in a policy.
type Finding struct {
	Rule string `json:"rule"` // or budget
	At   string `json:"at,omitempty"`
	Text string `json:"text"`
}

func (f Finding) String() string { return location(f.At) + f.Rule + " of the policy " + f.Text }

// Inventory lists the servers and tools that rules can apply to.
type Inventory struct {
	Servers []string            // all that are configured
	Tools   map[string][]string // by server, for the servers whose tools are known
}

// Findings returns the rules and budgets that can never match, and the rules that
// match more than they appear to. It reports only what is certain.
func (p *Policy) Findings(inv Inventory) (all []Finding) {
	for i, r := range p.rules {
		if text := p.checkRule(i, inv); text != "" {
			all = append(all, Finding{r.label, r.At, text})
		}
	}
	for _, b := range p.budgets {
		if text := inv.checkMatches(b.scope, matchingServers(b.scope, nil, inv)); text != "" {
			all = append(all, Finding{b.label, b.At, text})
		}
	}
	if p.project != nil {
		all = append(all, p.project.Findings(inv)...)
	}
	return all
}

// checkRule returns the text of the finding about a rule, "" if there is none.
func (p *Policy) checkRule(i int, inv Inventory) string {
	r := p.rules[i]
	if r.when != nil && r.when.never {
		return "can never match: its condition is false for every call"
	}
	servers := matchingServers(r.scope, r.when, inv)
	if text := inv.checkMatches(r.scope, servers); text != "" {
		return text
	}
	if r.Sandbox != "" { // also counts after a rule that decides
		return r.checkUndecided()
	}
	var covering []string
	for _, server := range servers {
		j := slices.IndexFunc(p.rules[:i], func(earlier *rule) bool { return earlier.covers(r, server) })
		if j < 0 {
			return r.checkUndecided()
		}
		covering = append(covering, p.rules[j].label)
	}
	if len(covering) == 0 {
		return r.checkUndecided()
	}
	slices.Sort(covering)
	return "can never match: all calls that it applies to are decided before it, by " + firstFew(slices.Compact(covering))
}

// matchingServers returns the servers that a rule or budget may apply to.
func matchingServers(s scope, when *condition, inv Inventory) (all []string) {
	for _, server := range inv.Servers {
		if s.server != nil && !s.server.Match(server) {
			continue
		}
		if len(s.tools) > 0 && !slices.ContainsFunc(s.tools, func(g glob.Pattern) bool { return g.MatchesPrefix(server + ".") }) {
			continue
		}
		if !when.excludes(server) {
			all = append(all, server)
		}
	}
	return all
}

// checkMatches returns a finding if a rule or budget matches no server or no tool.
func (inv Inventory) checkMatches(s scope, servers []string) string {
	if len(inv.Servers) == 0 {
		return ""
	}
	if len(servers) == 0 {
		return "can never match: it names none of the configured servers (" + firstFew(inv.Servers) + ")"
	}
	for _, server := range servers {
		tools, ok := inv.Tools[server]
		if !ok || slices.ContainsFunc(tools, func(name string) bool { return s.matchTool(server, server+"."+name) == matches }) {
			return ""
		}
	}
	return "matches no current tool of " + firstFew(servers)
}

// firstFew joins up to five names.
func firstFew(names []string) string {
	const most = 5
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += " …"
	}
	return text
}

// covers reports whether the rule decides all calls of a server that a later rule
// applies to.
func (r *rule) covers(later *rule, server string) bool {
	if !r.decides() || r.when != nil || r.scope.server != nil && !r.scope.server.Match(server) {
		return false
	}
	tools := later.scope.tools
	if len(tools) == 0 {
		tools = []glob.Pattern{{server + ".", ""}}
	}
	for _, g := range tools {
		if g.MatchesPrefix(server+".") && !coveredByAny(r.scope.tools, g) {
			return false
		}
	}
	if len(later.scope.tenants) == 0 {
		return len(r.scope.tenants) == 0
	}
	return !slices.ContainsFunc(later.scope.tenants, func(g glob.Pattern) bool { return !coveredByAny(r.scope.tenants, g) })
}

// coveredByAny reports whether one of several patterns covers g. No patterns cover all.
func coveredByAny(all []glob.Pattern, g glob.Pattern) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(wide glob.Pattern) bool { return wide.Covers(g) })
}

// checkUndecided returns a finding if the rule applies to all tools and its condition
// has no answer for a call without arguments.
func (r *rule) checkUndecided() string {
	if r.when == nil || r.Rule.Decision == Allow || len(r.Tools) > 0 || r.Server != "" || r.when.usesTool {
		return ""
	}
	e := newEvaluation(&Call{})
	defer e.close()
	if how, _ := r.when.eval(context.Background(), e); how != undecided {
		return ""
	}
	return "applies to all tools, and counts as matching for each call without an argument that its condition reads; name tools, or " +
		"write has(args.x) && … before"
}
