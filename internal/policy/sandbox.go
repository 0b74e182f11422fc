package policy

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
)

// Requirement is the sandbox that rules require of code. The zero value requires none.
type Requirement struct {
	Sandbox Sandbox `json:"sandbox"`
	Rule    string  `json:"rule"`             // the first that requires it: its name, or "rule 3"
	Reason  string  `json:"reason,omitempty"` // for the caller
}

// By returns the rule with its reason, for messages.
func (r Requirement) By() string {
	if r.Reason == "" {
		return r.Rule
	}
	return r.Rule + ": " + r.Reason
}

// Stronger returns the requirement of the stronger sandbox, and r if they are equal.
func (r Requirement) Stronger(other Requirement) Requirement {
	if r.Sandbox.Satisfies(other.Sandbox) {
		return r
	}
	return other
}

func (r *rule) requirement() Requirement { return Requirement{r.sandbox, r.label, r.Reason} }

// RequiresSandbox reports whether any rule requires a sandbox.
func (p *Policy) RequiresSandbox() bool {
	return len(p.isolating) > 0 || p.project != nil && len(p.project.isolating) > 0
}

// Requires returns the sandbox that code must run in to make a call: the strongest of all rules that
// match it, or whose condition cannot be decided.
func (p *Policy) Requires(ctx context.Context, c Call) (r Requirement, err error) {
	if len(p.isolating) > 0 {
		e := newEvaluation(&c)
		defer e.close()
		for _, one := range p.isolating {
			if how, _ := one.fits(ctx, e); how == matches || how == undecided {
				r = r.Stronger(one.requirement())
			}
		}
		if e.argsErr != nil {
			return Requirement{}, e.argsErr
		}
	}
	if p.project == nil {
		return r, nil
	}
	project, err := p.project.Requires(ctx, c)
	return r.Stronger(project), err
}

// MayRequire returns the strongest sandbox that any call of a tenant to a server can require.
func (p *Policy) MayRequire(id tenant.ID, server string) (r Requirement) {
	for _, one := range p.isolating {
		if len(one.scope.tenants) > 0 && !glob.MatchAny(one.scope.tenants, id.String()) {
			continue
		}
		if len(matchingServers(one.scope, one.when, Inventory{Servers: []string{server}})) > 0 {
			r = r.Stronger(one.requirement())
		}
	}
	if p.project != nil {
		r = r.Stronger(p.project.MayRequire(id, server))
	}
	return r
}
