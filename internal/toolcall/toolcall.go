// Package toolcall is the single path of a tool call, whether it comes from code
// in the sandbox, from a client in passthrough mode or from a workflow.
//
// Each feature around a call is a tool.Caller that wraps another one. Stack.For
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

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// Config of a Stack.
type Config struct {
	Catalog  *catalog.Catalog // required
	Upstream tool.Caller      // required
	// AwaitTools waits until servers have listed their tools and returns the errors
	// of those that have not, by server; nil means that all tools are listed already.
	AwaitTools func(ctx context.Context, servers ...string) map[string]error
	Policy     *policy.Policy   // evaluates each call; nil means the default policy
	Guard      *guardrail.Guard // checks arguments and results; nil checks nothing
	// OnTextResult is called when a tool's results are treated as text from now on;
	// may be nil.
	OnTextResult func(tool.Ref)
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
		cfg.Policy = policy.Default()
	}
	if cfg.Audit == nil {
		cfg.Audit = func(audit.Line) {}
	}
	return &Stack{cfg: cfg, schemas: map[tool.Ref]compiled{}}
}

// Owner is the tenant and the execution for which calls are made.
type Owner struct {
	Home *home.Home      // required
	Exit *redact.Exit    // redacts and restores values at the boundary to servers; required
	Run  *journal.Record // record of the execution; nil if it is not recorded
	Plan *Plan           // collects calls that may change something instead of making them; nil unless this is a dry run
	// Approved means that the user has approved all calls already.
	Approved bool
	// OnInjection receives the kinds of prompt injection (see package guardrail) that
	// a result contains; may be nil.
	OnInjection func(of tool.Ref, kinds []string)
}

// For returns the caller of an owner. It is valid as long as the owner's home.
func (s *Stack) For(o Owner) tool.Caller {
	c := s.cfg.Upstream
	// Innermost: whatever reaches it is sent to the server.
	c = sender{c, s}
	// Infers the result type from actual results, and decides how they are decoded.
	c = shapeObserver{c, o.Home, s}
	// Records calls exactly as they are made, and no refused ones.
	c = recorder{c, o.Home, o.Run, s}
	// Counts only calls that are made, not those that wait for approval or are denied.
	c = budgetCounter{c, o.Home, s}
	// After policy, so that a plan contains no denied call.
	if o.Plan != nil {
		c = planner{c, o.Plan, s}
	}
	// Policy and the approving user see exactly the bytes that the server receives.
	c = decider{c, o, s}
	// Before policy: a recorded call is not decided and made again. After validation,
	// since the record is keyed by the bytes that were evaluated and sent.
	if o.Run != nil {
		c = replayer{c, o.Run, s}
	}
	// Results are recorded unchanged, and checked on every replay.
	c = screener{c, o, s}
	// Before replay, since the occurrence number counts replayed calls as well.
	c = &occurrenceCounter{next: c}
	// Before everything that reads arguments.
	c = validator{c, o.Plan, s}
	// Before validation, which a token may fail where its value passes.
	c = redactor{c, o.Exit}
	// Before all others, which use the resolved tool.
	c = resolver{c, s}
	// Outermost: refused calls are audited too.
	return auditor{c, o.Home, s, new(atomic.Int64)}
}

// AwaitTools waits until the servers have listed their tools and returns the errors
// of those that have not.
func (s *Stack) AwaitTools(ctx context.Context, servers ...string) map[string]error {
	if s.cfg.AwaitTools == nil {
		return nil
	}
	return s.cfg.AwaitTools(ctx, servers...)
}

// find returns a tool that can be called, or an error that states why it cannot.
func (s *Stack) find(ref tool.Ref) (catalog.Tool, error) {
	now := s.cfg.Catalog.Now()
	t, ok := now.Find(ref)
	switch {
	case !ok:
		return t, notFound(now, ref)
	case !t.Connected:
		return t, fault.New(fault.Unavailable, "server %s is known from a catalog only and not connected", ref.Server).
			WithHint("the operator can add it to servers: in sandpiper.yaml")
	case t.Quarantined != nil:
		return t, fault.New(fault.Denied, "%s is quarantined: its definition has changed since it was trusted", ref).
			WithHint("the operator can review the change and run `sandpiper tools accept %s %s`", ref.Server, ref.Tool)
	}
	return t, nil
}

func notFound(now *catalog.Snapshot, ref tool.Ref) error {
	v, ok := now.Server(ref.Server)
	if !ok {
		return fault.New(fault.NotFound, "there is no server %.80q%s", ref.Server, didYouMean(now.NearestServers(ref.Server, 3)))
	}
	if v.Listed.IsZero() && v.Tools == 0 {
		return fault.New(fault.Unavailable, "server %s has not listed its tools yet", v.Name).
			WithHint("Sandpiper requests the list by itself: try again in a moment")
	}
	return fault.New(fault.NotFound, "server %s has no tool %.80q%s", v.Name, ref.Tool, didYouMean(now.NearestFunctions(v.Name, ref.Tool, 3)))
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

// resolver replaces the tool's name by its canonical one, and waits for a server
// that has not listed its tools yet.
type resolver struct {
	next  tool.Caller
	stack *Stack
}

func (r resolver) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if s, ok := r.stack.cfg.Catalog.Now().Server(c.Server); ok && s.Listed.IsZero() {
		if err := r.stack.AwaitTools(ctx, c.Server)[s.Name]; err != nil {
			return tool.Result{}, err
		}
	}
	c.Ref = r.stack.cfg.Catalog.Now().Resolve(c.Ref)
	return r.next.Call(ctx, c)
}

// occurrenceCounter numbers identical calls (same tool and arguments).
type occurrenceCounter struct {
	next tool.Caller

	mu   sync.Mutex
	made map[[sha256.Size]byte]int
}

func (n *occurrenceCounter) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	key := sha256.Sum256([]byte(c.Server + "\x00" + c.Tool + "\x00" + string(c.ComparableArgs())))
	n.mu.Lock()
	if n.made == nil {
		n.made = map[[sha256.Size]byte]int{}
	}
	n.made[key]++
	c.Occurrence = n.made[key]
	n.mu.Unlock()
	return n.next.Call(ctx, c)
}
