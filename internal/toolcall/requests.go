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
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// What is asked of a server beside its tools. Policy, its budgets and the audit log
// know each by this name, as if it were a tool of the server.
const (
	readResource = "resources/read"
	getPrompt    = "prompts/get"
)

// Find returns a tool that policy can decide on: one that the catalog has, or what
// else can be asked of its server.
func Find(now *catalog.Snapshot, ref tool.Ref) (catalog.Tool, bool) {
	if t, ok := now.Find(ref); ok {
		return t, true
	}
	v, ok := now.Server(ref.Server)
	if !ok || !slices.Contains(RequestNames(v), ref.Tool) {
		return catalog.Tool{}, false
	}
	return beside(v, ref), true
}

// Beside are the names of what can be asked of a server that is no tool.
func RequestNames(v catalog.Server) (names []string) {
	if v.Resources {
		names = append(names, readResource)
	}
	if v.Prompts {
		names = append(names, getPrompt)
	}
	return names
}

// beside is what policy knows of something that is no tool. By the protocol it
// changes nothing, which is believed of whoever is believed.
func beside(v catalog.Server, ref tool.Ref) catalog.Tool {
	yes := true
	says := tool.Hints{ReadOnly: &yes}
	return catalog.Tool{
		Definition: tool.Definition{Ref: ref, Hints: says},
		Connected:  v.Connected, Trusted: v.Trusted, TrustedHints: says.Trusted(v.Trusted),
	}
}

// Asker asks servers for what is no tool: each time policy decides, as it does on
// calls. Nobody is asked for an approval; what would need one is refused.
type Requester struct {
	// Dry asks only servers that are trusted, as a dry run does: what another one
	// says of itself does not make a request harmless.
	Dry bool

	stack              *Stack
	home               *home.Home
	execution, session string
	harmless           atomic.Int64 // lines in the audit log
}

// Asker returns that of the code of an execution, or of nobody's if that is "".
func (s *Stack) Requester(home *home.Home, execution, session string) *Requester {
	return &Requester{stack: s, home: home, execution: execution, session: session}
}

// Resource has a resource read by read, if it may be.
func (a *Requester) Resource(ctx context.Context, server, uri string, read func() error) error {
	return a.ask(ctx, tool.Ref{Server: server, Tool: readResource}, map[string]any{"uri": uri}, read)
}

// Prompt has a prompt fetched by get, if it may be.
func (a *Requester) Prompt(ctx context.Context, server, name string, args map[string]string, get func() error) error {
	if args == nil {
		args = map[string]string{}
	}
	return a.ask(ctx, tool.Ref{Server: server, Tool: getPrompt}, map[string]any{"name": name, "arguments": args}, get)
}

func (a *Requester) ask(ctx context.Context, ref tool.Ref, args map[string]any, do func() error) error {
	v, known := a.stack.cfg.Catalog.Now().Server(ref.Server)
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	c := tool.Call{Ref: ref, Execution: a.execution, Session: a.session, Args: raw}
	line := audit.Line{
		Kind: audit.ToolCall, Tenant: a.home.ID(), Execution: c.Execution, Session: c.Session,
		Server: v.Name, Tool: ref.Tool, Outcome: refused,
	}
	if a.Dry && !v.Trusted {
		err = fault.New(fault.Denied, "%s was not asked for: this is a dry run, and server %q is not trusted", ref, ref.Server).
			WithHint("run the code without dry_run, or ask the operator to set trusted: true for the server")
	} else {
		err = a.allowed(ctx, c, beside(v, ref))
	}
	if err == nil {
		began := time.Now()
		err = do()
		line.Duration, line.Outcome = time.Since(began), string(outcomeOf(err))
	}
	if known && a.harmless.Add(1) <= mostHarmless { // code may name any server
		a.stack.cfg.Audit(line)
	}
	return err
}

// allowed is nil if c may be made, and counts it then.
func (a *Requester) allowed(ctx context.Context, c tool.Call, t catalog.Tool) error {
	s := a.stack
	d, err := s.decide(ctx, judged(c, t, a.home))
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s was not asked for, since policy could not decide: %s", c.Ref, fault.Message(err))
	}
	if d, err = s.tightened(ctx, a.home, c, d); err != nil {
		return err
	}
	if d.Verdict == policy.Allow {
		d = s.cfg.Policy.Take(judged(c, t, a.home))
	}
	switch d.Verdict {
	case policy.Allow:
		return nil
	case policy.Ask:
		return fault.Wrap(fault.Denied, s.against(c, a.home, d), "%s was not asked for: policy says ask (%s), and nobody is asked about what is no tool", c.Ref, d.Rule).
			WithHint("go on without it; the operator can allow it with a rule for the tool %q", c.Ref)
	}
	return s.against(c, a.home, d)
}
