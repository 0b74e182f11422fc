// Package toolcall is the single path of a tool call, whether it comes from code
// in the sandbox, from a client in passthrough mode or from an applied plan.
//
// The tool of a call is looked up once, in one snapshot of the catalog, and carried in
// the call. Each feature around a call is a layer that wraps another one; Stack.For
// defines their order and gives the reason for each position. A Stack is safe for
// concurrent use. The package knows no protocol and opens no connections.
package toolcall

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// Config of a Stack.
type Config struct {
	Catalog  *catalog.Catalog // required
	Upstream tool.Caller      // required
	// UpstreamOf returns what makes the calls of a tenant to a server; nil means Upstream.
	UpstreamOf func(id tenant.ID, server string) tool.Caller
	// AwaitTools waits until servers have listed their tools and returns the errors
	// of those that have not, by server; nil means that all tools are listed already.
	AwaitTools func(ctx context.Context, servers ...string) map[string]error
	// Policy returns the policy in force, which evaluates each call; nil means the default one.
	Policy func() *policy.Policy
	// Guard returns the guardrails in force, which check arguments and results; nil, or a nil
	// result, checks nothing.
	Guard func() *guardrail.Guard
	// Audit receives a line when a call ends or is refused, and for each policy
	// decision other than allow; nil means that there is no audit log.
	Audit     func(audit.Line)
	Telemetry *telemetry.Recorder // nil records nothing
	Log       *slog.Logger        // nil discards
}

// Stack makes callers for tenants.
type Stack struct {
	cfg Config

	mu      sync.Mutex
	schemas map[tool.Ref]compiled
}

// compiled caches the schema of a definition until the definition changes.
type compiled struct {
	raw    json.RawMessage
	schema *schema.Schema
}

// New returns a Stack.
func New(cfg Config) *Stack {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Policy == nil {
		standard := policy.Default()
		cfg.Policy = func() *policy.Policy { return standard }
	}
	if cfg.Guard == nil {
		cfg.Guard = func() *guardrail.Guard { return nil }
	}
	if cfg.Audit == nil {
		cfg.Audit = func(audit.Line) {}
	}
	return &Stack{cfg: cfg, schemas: map[tool.Ref]compiled{}}
}

// Owner is the tenant and the execution for which calls are made.
type Owner struct {
	Home   *home.Home      // required
	Subset string          // named subset of servers that the caller has chosen; "" means all
	Only   *catalog.Allow  // tools that the execution may use; nil means all
	Gate   *redact.Gate    // redacts and restores values at the boundary to servers; required
	Run    *journal.Record // record of the execution; nil if it is not recorded
	Plan   *Plan           // collects calls that may change something instead of making them; nil unless this is a dry run
	// Sandbox is that of the code that makes the calls; policy.NoCode if no code makes them. The
	// zero value satisfies no requirement.
	Sandbox policy.Sandbox
	// Approved means that the user has approved all calls already.
	Approved bool
	// Forward keeps Part.Raw, for answers that are forwarded in the server's form.
	Forward bool
	// OnInjection receives the kinds of prompt injection (see package guardrail) that
	// a result contains; may be nil.
	OnInjection func(of tool.Ref, kinds []string)
	// Later runs a function that reads a large answer while the code uses it; nil: the answer waits for it.
	Later func(f func())
}

func (o Owner) viewer() catalog.Viewer {
	return catalog.Viewer{Tenant: o.Home.ID(), Subset: o.Subset, Only: o.Only}
}

// call is a tool call within the stack, with its tool as the catalog lists it.
type call struct {
	tool.Call
	tool catalog.Tool
	// notBegun means that the record of its execution has no start of the call: no earlier run has made it.
	notBegun bool
}

// answer is the result of a call within the stack.
type answer struct {
	tool.Result
	outcome  string        // one of audit.go, or a journal.Outcome; "" if the call was refused
	duration time.Duration // of the server's part
	recorded bool          // the record has the answer, or will have it
	// destination is where the call is sent, in the words of the configuration; "" for the server itself.
	destination string
}

// isLarge reports whether a result is so large that recording or searching it delays the code.
func isLarge(res tool.Result) bool { return size(res) >= 64<<10 }

// layer is one feature around a call. An error of a call that was made is returned with
// the outcome in the answer.
type layer interface {
	handle(context.Context, call) (answer, error)
}

// rules are the policy and the guardrails that an owner's calls began with.
type rules struct {
	*Stack
	policy *policy.Policy
	guard  *guardrail.Guard
}

func (s *Stack) rules() rules { return rules{s, s.cfg.Policy(), s.cfg.Guard()} }

// For returns the caller of an owner. It is valid as long as the owner's home. Its calls keep the
// rules that are in force now; those of a later policy apply as far as they are stricter.
func (s *Stack) For(o Owner) tool.Caller {
	began := s.rules()
	// Innermost: whatever reaches it is sent to the server.
	to := s.upstream(o)
	var c layer = sender{to, o.Forward, o.Home.ID(), s}
	// Records only calls that a server has answered.
	c = useRecorder{c, o.Home.Learned}
	// Infers the result type from actual results, and decides how they are decoded.
	c = shapeObserver{c, o.Home}
	// Records calls exactly as they are made, and no refused ones.
	c = recorder{c, o.Home, o.Run, s}
	// Counts only calls that are made, not those that wait for approval or are denied.
	c = budgetCounter{c, o.Home, began}
	// After policy, so that a plan contains no denied call.
	if o.Plan != nil {
		c = planner{c, o, began}
	}
	// Policy and the approving user see exactly the bytes that the server receives.
	c = decider{c, o, began}
	// Before policy: a recorded call is not decided and made again. After validation,
	// since the record is keyed by the bytes that were evaluated and sent.
	if o.Run != nil {
		c = replayer{c, o.Run, s}
	}
	// Before replay: code in a weaker sandbox does not get recorded answers either.
	c = isolator{c, o, began}
	// Results are recorded unchanged, and checked on every replay.
	c = screener{c, o, began}
	// Before replay, since the occurrence number counts replayed calls as well.
	c = &occurrenceCounter{next: c}
	// Before everything that reads arguments.
	check, _ := to.(tool.Checker)
	c = validator{c, check, o.Plan, s}
	// Before validation, which a token may fail where its value passes.
	c = redactor{c, o.Gate, o.Plan}
	// Outermost: resolves the tool for all others, and audits refused calls too.
	return auditor{c, o, s, new(atomic.Int64)}
}

// tenantCaller makes the calls of a tenant.
type tenantCaller struct {
	id tenant.ID
	of func(tenant.ID, string) tool.Caller
}

// Call implements tool.Caller.
func (t tenantCaller) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	return t.of(t.id, c.Server).Call(ctx, c)
}

// Check implements tool.Checker.
func (t tenantCaller) Check(ctx context.Context, c tool.Call) (string, error) {
	if check, ok := t.of(t.id, c.Server).(tool.Checker); ok {
		return check.Check(ctx, c)
	}
	return "", nil
}

func (s *Stack) upstream(o Owner) tool.Caller {
	if s.cfg.UpstreamOf == nil {
		return s.cfg.Upstream
	}
	return tenantCaller{o.Home.ID(), s.cfg.UpstreamOf}
}

// AwaitTools waits until the servers have listed their tools and returns the errors
// of those that have not.
func (s *Stack) AwaitTools(ctx context.Context, servers ...string) map[string]error {
	if s.cfg.AwaitTools == nil {
		return nil
	}
	return s.cfg.AwaitTools(ctx, servers...)
}

// resolve returns a call with the tool's canonical name and definition, after the
// server has listed its tools. known has the parts of that name that the catalog
// contains, also if the tool cannot be called.
func (s *Stack) resolve(ctx context.Context, viewer catalog.Viewer, c tool.Call) (r call, known tool.Ref, err error) {
	now, err := s.awaitListed(ctx, viewer, c)
	if err != nil {
		return call{Call: c}, known, err
	}
	c.Ref = now.Resolve(c.Ref)
	if v, ok := now.Server(c.Server); ok {
		known.Server = v.Name
	}
	t, ok := now.Find(c.Ref)
	if ok {
		known.Tool = c.Tool
	}
	return call{Call: c, tool: t}, known, checkCallable(now, c.Ref)
}

// awaitListed returns the catalog once the server of a call has listed its tools.
func (s *Stack) awaitListed(ctx context.Context, viewer catalog.Viewer, c tool.Call) (*catalog.Snapshot, error) {
	now := s.cfg.Catalog.For(viewer)
	v, ok := now.Server(c.Server)
	if !ok || !v.Listed.IsZero() {
		return now, nil
	}
	if c.Starting != nil && v.Connected {
		defer c.Starting()()
	}
	if err := s.AwaitTools(ctx, c.Server)[v.Name]; err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "server %s has not listed its tools: %s", v.Name, fault.Message(err)).
			WithHint("%s", fault.Hint(err))
	}
	return s.cfg.Catalog.For(viewer), nil
}

// checkCallable returns an error that states why a tool cannot be called; nil if it can.
func checkCallable(now *catalog.Snapshot, ref tool.Ref) error {
	t, ok := now.Find(ref)
	switch {
	case !ok:
		return notFound(now, ref)
	case !t.Connected:
		return unconnected(ref.Server)
	case t.Quarantined != nil:
		return fault.New(fault.Denied, "%s is quarantined: %s", ref, t.Reason()).
			WithHint("the operator can review it and run `sandpiper tools accept %s %s`", ref.Server, ref.Tool)
	}
	return nil
}

func notFound(now *catalog.Snapshot, ref tool.Ref) error {
	v, ok := now.Server(ref.Server)
	if err := now.Disabled.Check(ref.Server); !ok && err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.NotFound, "there is no server %.80q%s", ref.Server, didYouMean(now.NearestServers(ref.Server, 3)))
	}
	if !v.Connected {
		return unconnected(v.Name)
	}
	if v.Listed.IsZero() && v.Tools == 0 {
		return fault.New(fault.Unavailable, "server %s has not listed its tools yet", v.Name).
			WithHint("Sandpiper requests the list by itself: try again in a moment")
	}
	return fault.New(fault.NotFound, "server %s has no tool %.80q%s", v.Name, ref.Tool,
		didYouMean(now.NearestFunctions(v.Name, ref.Tool, 3)))
}

// CheckServer returns an error if the viewer of a snapshot may not make a request to a server,
// whose name is given like that of a tool.
func CheckServer(now *catalog.Snapshot, ref tool.Ref) error {
	v, ok := now.Server(ref.Server)
	switch {
	case !ok:
		return notFound(now, ref)
	case v.Unreviewed:
		return fault.New(fault.Denied, "%s is not available: nobody has reviewed server %s yet", ref, v.Name).
			WithHint("the operator can review it and run `sandpiper tools accept %s --all`", v.Name)
	case !now.Allows(tool.Ref{Server: v.Name, Tool: ref.Tool}):
		return fault.New(fault.Denied, "%s is not available", ref).WithHint("the operator can allow it")
	}
	return nil
}

func unconnected(server string) error {
	return fault.New(fault.Unavailable, "server %s is known from a catalog only and not connected", server).
		WithHint("the operator can add it to servers: in sandpiper.yaml")
}

func didYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// Schema returns the compiled schema of a tool's arguments.
func (s *Stack) Schema(d tool.Definition) *schema.Schema {
	s.mu.Lock()
	c, ok := s.schemas[d.Ref]
	s.mu.Unlock()
	if ok && bytes.Equal(c.raw, d.Input) {
		return c.schema
	}
	c = compiled{d.Input, schema.Compile(d.Input)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schemas[d.Ref] = c
	return c.schema
}

// occurrenceCounter numbers identical calls (same tool and arguments).
type occurrenceCounter struct {
	next layer

	mu   sync.Mutex
	made map[[sha256.Size]byte]int
}

func (n *occurrenceCounter) handle(ctx context.Context, c call) (answer, error) {
	key := sha256.Sum256([]byte(c.Server + "\x00" + c.Tool + "\x00" + string(c.ComparableArgs())))
	n.mu.Lock()
	if n.made == nil {
		n.made = map[[sha256.Size]byte]int{}
	}
	n.made[key]++
	c.Occurrence = n.made[key]
	n.mu.Unlock()
	return n.next.handle(ctx, c)
}
