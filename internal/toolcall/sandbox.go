package toolcall

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// RequiresSandbox reports whether any call requires a sandbox.
func (s *Stack) RequiresSandbox() bool { return s.cfg.Policy().RequiresSandbox() }

// MayRequire returns the strongest sandbox that a call of a tenant to a server can require.
func (s *Stack) MayRequire(id tenant.ID, server string) policy.Requirement {
	return s.cfg.Policy().MayRequire(id, server)
}

// isolator refuses the calls of code whose sandbox is weaker than policy requires.
type isolator struct {
	next  layer
	owner Owner
	stack rules
}

func (i isolator) handle(ctx context.Context, c call) (answer, error) {
	if err := i.stack.checkSandbox(ctx, i.owner, policyCall(c, i.owner.Home)); err != nil {
		return answer{}, err
	}
	return i.next.handle(ctx, c)
}

// CheckSandbox returns an error if the sandbox of the owner's code is too weak for a request to a
// server. ref names the request like a tool. The answer of a recorded request needs the check too.
func (a *Requester) CheckSandbox(ctx context.Context, ref tool.Ref, args map[string]any) error {
	v, ok := a.stack.cfg.Catalog.For(a.owner.viewer()).Server(ref.Server)
	if !ok {
		return nil // there is nothing to request
	}
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	ref.Server = v.Name
	c := tool.Call{Ref: ref, Execution: a.execution, Session: a.session, Args: raw}
	return a.stack.checkSandbox(ctx, a.owner, policyCall(call{Call: c, tool: requestAsTool(v, ref)}, a.home))
}

// checkSandbox returns an error if policy requires a stronger sandbox than the owner's. A policy
// that replaced the one that the owner began with counts too.
func (s rules) checkSandbox(ctx context.Context, o Owner, c policy.Call) error {
	required, err := s.policy.Requires(ctx, c)
	if now := s.cfg.Policy(); err == nil && now != s.policy {
		var other policy.Requirement
		other, err = now.Requires(ctx, c)
		required = required.Stronger(other)
	}
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s was not called: policy could not be evaluated: %s", c.Ref, fault.Message(err))
	}
	if o.Sandbox.Satisfies(required.Sandbox) {
		return nil
	}
	s.cfg.Audit(audit.Line{
		Kind: audit.Decision, Tenant: o.Home.ID(), Execution: c.Execution, Session: c.Session,
		Server: c.Server, Tool: c.Tool, Decision: string(policy.Block), Rule: required.Rule,
	})
	module, _ := s.cfg.Catalog.For(o.viewer()).Python(c.Ref)
	return fault.New(fault.Denied, "%s was not called: policy requires the sandbox %s for code that calls it (%s), and this code "+
		"runs in %s",
		c.Ref, required.Sandbox, required.By(), o.Sandbox).WithHint("%s", sandboxHint(module, c.Session != ""))
}

// sandboxHint states how code gets the sandbox that is required for a server.
func sandboxHint(module string, session bool) string {
	first := fmt.Sprintf("write `from servers import %s` at the top of the code: Sandpiper selects the sandbox by the servers that the "+
		"code names, before it runs", module)
	if session {
		return "a session keeps its sandbox: use another session_id, and " + first
	}
	return first
}
