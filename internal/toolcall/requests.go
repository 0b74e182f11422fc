package toolcall

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Requests to a server other than tool calls. Policy, its budgets and the audit log
// treat each as a tool of the server with this name.
const (
	readResource = "resources/read"
	getPrompt    = "prompts/get"
	complete     = "completion/complete" // only privacy flows apply to it
)

// Find returns the tool or request that ref names, in the form that policy evaluates.
func Find(now *catalog.Snapshot, ref tool.Ref) (catalog.Tool, bool) {
	if t, ok := now.Find(ref); ok {
		return t, true
	}
	v, ok := now.Server(ref.Server)
	if !ok || !slices.Contains(RequestNames(v), ref.Tool) {
		return catalog.Tool{}, false
	}
	return requestAsTool(v, ref), true
}

// RequestNames returns the requests other than tool calls that a server supports.
func RequestNames(v catalog.Server) (names []string) {
	if v.Resources {
		names = append(names, readResource)
	}
	if v.Prompts {
		names = append(names, getPrompt)
	}
	return names
}

// requestAsTool describes such a request as a tool. By the protocol it is read-only;
// that hint counts only if the server is trusted.
func requestAsTool(v catalog.Server, ref tool.Ref) catalog.Tool {
	yes := true
	says := tool.Hints{ReadOnly: &yes}
	return catalog.Tool{
		Definition: tool.Definition{Ref: ref, Hints: says},
		Connected:  v.Connected, Trusted: v.Trusted, TrustedHints: says.Trusted(v.Trusted),
	}
}

// Requester sends requests other than tool calls, after policy has allowed each of
// them. It cannot ask for approval: a request that would need it is denied.
type Requester struct {
	// Dry restricts requests to trusted servers, as in a dry run: an untrusted server's
	// claim that a request is read-only proves nothing.
	Dry bool

	stack              rules
	home               *home.Home
	owner              Owner
	execution, session string
	auditLines         atomic.Int64 // lines written to the audit log
}

// Requester returns the Requester of an owner's execution; execution is "" outside of one.
func (s *Stack) Requester(o Owner, execution, session string) *Requester {
	return &Requester{stack: s.rules(), home: o.Home, owner: o, execution: execution, session: session}
}

// Resource calls read with the URI that the server receives, if policy and privacy flows allow
// reading the resource.
func (a *Requester) Resource(ctx context.Context, server, uri string, read func(uri string) error) error {
	ref := tool.Ref{Server: server, Tool: readResource}
	return a.ask(ctx, ref, func() (_ map[string]any, err error) {
		uri, err = a.owner.Gate.Restorer().URI(ctx, ref, uri)
		return map[string]any{"uri": uri}, err
	}, func() error { return read(uri) })
}

// Prompt calls get with the arguments that the server receives, if policy and privacy flows allow
// fetching the prompt.
func (a *Requester) Prompt(ctx context.Context, server, name string, args map[string]string, get func(args map[string]string) error) error {
	ref := tool.Ref{Server: server, Tool: getPrompt}
	return a.ask(ctx, ref, func() (_ map[string]any, err error) {
		if args, err = a.texts(ctx, ref, map[string]string{"name": name}, args); args == nil {
			args = map[string]string{}
		}
		return map[string]any{"name": name, "arguments": args}, err
	}, func() error { return get(args) })
}

// Complete calls get with the values that the server receives, if privacy flows allow it. at
// names the prompt or the resource template.
func (a *Requester) Complete(ctx context.Context, server, at string, values map[string]string,
	get func(values map[string]string) error) error {
	values, err := a.texts(ctx, tool.Ref{Server: server, Tool: complete}, map[string]string{"ref": at}, values)
	if err != nil {
		return err
	}
	return get(values)
}

// texts decides about what names a request, which is sent as it is, and restores its arguments.
func (a *Requester) texts(ctx context.Context, ref tool.Ref, name, args map[string]string) (map[string]string, error) {
	r := a.owner.Gate.Restorer()
	if _, err := r.Texts(ctx, ref, name); err != nil {
		return nil, err
	}
	return r.Texts(ctx, ref, args)
}

// ask makes a request. open returns its arguments as the server receives them.
func (a *Requester) ask(ctx context.Context, ref tool.Ref, open func() (map[string]any, error), do func() error) error {
	now := a.stack.cfg.Catalog.For(a.owner.viewer())
	v, known := now.Server(ref.Server)
	if err := CheckServer(now, ref); err != nil {
		return err
	}
	c := tool.Call{Ref: ref, Execution: a.execution, Session: a.session}
	line := audit.Line{
		Kind: audit.ToolCall, Tenant: a.home.ID(), Execution: c.Execution, Session: c.Session,
		Server: v.Name, Tool: ref.Tool, Outcome: outcomeRefused,
	}
	var err error
	if a.Dry && !v.Trusted {
		err = fault.New(fault.Denied, "%s was not requested: a dry run contacts only trusted servers, and %q is not trusted", ref,
			ref.Server).
			WithHint("run the code without dry_run, or ask the operator to set trusted: true for the server")
	} else if c.Args, err = opened(open); err == nil {
		err = a.checkAllowed(ctx, call{Call: c, tool: requestAsTool(v, ref)})
	}
	if err == nil {
		if err = a.home.Quotas.Take(ctx, quota.Calls); err != nil {
			err = notCalled(ref, err)
		}
	}
	if err == nil {
		began := time.Now()
		read := call{Call: c} // by the protocol, such a request changes nothing
		read.tool.TrustedHints = requestAsTool(v, ref).Hints
		err = unanswered(read, do())
		line.Duration, line.Outcome = time.Since(began), string(outcomeOf(err))
	}
	if known && a.auditLines.Add(1) <= maxHarmlessLines { // code may name any server
		a.stack.cfg.Audit(line)
	}
	return err
}

func opened(open func() (map[string]any, error)) (json.RawMessage, error) {
	args, err := open()
	if err != nil {
		return nil, err
	}
	return json.Marshal(args)
}

// checkAllowed returns nil if the request may be made, and then counts it.
func (a *Requester) checkAllowed(ctx context.Context, c call) error {
	s := a.stack
	d, err := s.decide(ctx, policyCall(c, a.home))
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s was not requested: policy could not be evaluated: %s", c.Ref, fault.Message(err))
	}
	if d, err = s.applyGuards(ctx, a.home, c.Call, d); err != nil {
		return err
	}
	if d.Verdict == policy.Allow {
		d = s.cfg.Policy().Take(policyCall(c, a.home))
	}
	switch d.Verdict {
	case policy.Allow:
		return nil
	case policy.Ask:
		return fault.Wrap(fault.Denied, s.deny(c.Call, a.home, d),
			"%s was not requested: policy requires approval (%s), which only tool calls can request", c.Ref, d.Rule).
			WithHint("continue without it; the operator can allow it with a rule for the tool %q", c.Ref)
	}
	return s.deny(c.Call, a.home, d)
}
