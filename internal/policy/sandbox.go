package policy

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
)

// Sandbox is a kind of sandbox that code runs in, named as in the configuration.
type Sandbox string

// The kinds of sandboxes, the weakest first.
const (
	Process Sandbox = "process" // on the host's kernel
	GVisor  Sandbox = "gvisor"  // on a second kernel
	MicroVM Sandbox = "microvm" // on a second kernel, in a virtual machine
	// NoCode is for calls that no code makes: those of a client, or of an approved plan.
	NoCode Sandbox = "none"
)

// strengths orders the kinds of sandboxes. gVisor and virtual machines isolate differently; a rule
// asks for at least a second kernel, which a virtual machine has, or for a virtual machine.
var strengths = map[Sandbox]int{Process: 1, GVisor: 2, MicroVM: 3, NoCode: 4}

// Satisfies reports whether code in s may do what requires another sandbox; "" requires none. The
// zero Sandbox satisfies no other.
func (s Sandbox) Satisfies(required Sandbox) bool { return strengths[s] >= strengths[required] }

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

func (r *rule) requirement() Requirement { return Requirement{r.Sandbox, r.label, r.Reason} }

// checkSandbox rejects a sandbox that a rule cannot require.
func (r Rule) checkSandbox() error {
	switch r.Sandbox {
	case "", GVisor, MicroVM:
		return nil
	}
	return fault.New(fault.Invalid, "requires the sandbox %.40q; it must be gvisor or microvm", string(r.Sandbox))
}

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
