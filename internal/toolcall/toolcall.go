// Package toolcall is the one path of a tool's call, whoever makes it: code in
// the sandbox, a client that calls tools directly, a workflow.
//
// Every ability that surrounds a call is a tool.Caller around another; their
// order stands in Stack.For, with the reason for each place. A Stack is safe for
// concurrent use. The package knows no protocol and connects to nothing.
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
	// Know waits until servers have said which tools they have, as far as they
	// answer, and returns why some do not; nil means that this is known.
	AwaitTools func(ctx context.Context, servers ...string) map[string]error
	Policy     *policy.Policy   // decides on each call; nil means the default one
	Guard      *guardrail.Guard // looks at arguments and answers; nil looks at nothing
	// Texts is told of a tool whose answers are texts from now on; nil tells nobody.
	OnTextResult func(tool.Ref)
	// Audit takes a line when a call ended or was refused, and when one was not
	// allowed as it is; nil means that there is no audit log.
	Audit     func(audit.Line)
	Telemetry *telemetry.Recorder // is told of calls; nil means nobody is
	Log       *slog.Logger        // nil discards
}

// Stack makes callers for tenants.
type Stack struct {
	cfg Config

	mu      sync.Mutex
	schemas map[tool.Ref]compiled
}

// compiled is the schema of a definition, as long as that is the same.
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

// Owner is for whom calls are made.
type Owner struct {
	Home *home.Home      // required
	Exit *redact.Exit    // that what goes to servers and comes from them passes; required
	Run  *journal.Record // of the execution that calls are made for; nil if it is not kept
	Plan *Plan           // takes calls that may change something, in place of making them; nil unless this is a dry run
	// Approved is for who has asked the person already, about all calls.
	Approved bool
	// Marked is told what in an answer reads like instructions to a model, by the
	// kinds of package guardrail; nil tells nobody.
	OnInjection func(of tool.Ref, kinds []string)
}

// For returns the caller of an owner, good as long as their home is.
func (s *Stack) For(o Owner) tool.Caller {
	c := s.cfg.Upstream
	// Closest to the server, since what gets here is sent.
	c = sent{c, s}
	// It learns from what was really answered, and says how that is read.
	c = observed{c, o.Home, s}
	// What is recorded is the call as it is made, and no call that is refused.
	c = recorded{c, o.Home, o.Run, s}
	// What is counted are calls that are made: none that waits for a person, or that
	// nobody allows.
	c = counted{c, o.Home, s}
	// After policy, so that a plan has no call that is forbidden.
	if o.Plan != nil {
		c = planned{c, o.Plan, s}
	}
	// Policy, and whoever is asked, judges the very bytes that the server is sent.
	c = decided{c, o, s}
	// Before policy: what was decided and done is not decided and done again. After
	// the check, since the record goes by the bytes that were judged and sent.
	if o.Run != nil {
		c = remembered{c, o.Run, s}
	}
	// What a tool answered is on record as it is, and looked at each time.
	c = screened{c, o, s}
	// Before any may be answered without being made, since the number is of all alike.
	c = &numbered{next: c}
	// Before all that looks at arguments, or acts on them.
	c = validated{c, o.Plan, s}
	// Before the check, which a token may not pass where its value does.
	c = private{c, o.Exit}
	// Before all others, which go by the tool that is meant.
	c = resolved{c, s}
	// Around all of it, since what is refused on the way is on record too.
	return watched{c, o.Home, s, new(atomic.Int64)}
}

// Know waits until some servers have said which tools they have, and returns why
// some have not.
func (s *Stack) AwaitTools(ctx context.Context, servers ...string) map[string]error {
	if s.cfg.AwaitTools == nil {
		return nil
	}
	return s.cfg.AwaitTools(ctx, servers...)
}

// find returns a tool that can be called.
func (s *Stack) find(ref tool.Ref) (catalog.Tool, error) {
	now := s.cfg.Catalog.Now()
	t, ok := now.Find(ref)
	switch {
	case !ok:
		return t, missing(now, ref)
	case !t.Connected:
		return t, fault.New(fault.Unavailable, "server %s is known from a catalog only and not connected", ref.Server).
			WithHint("the operator can add it to servers: in sandpiper.yaml")
	case t.Quarantined != nil:
		return t, fault.New(fault.Denied, "%s has changed its definition since it was trusted, and cannot be called until that is accepted", ref).
			WithHint("the operator can look at it and run `sandpiper tools accept %s %s`", ref.Server, ref.Tool)
	}
	return t, nil
}

func missing(now *catalog.Snapshot, ref tool.Ref) error {
	v, ok := now.Server(ref.Server)
	if !ok {
		return fault.New(fault.NotFound, "there is no server %.80q%s", ref.Server, meant(now.NearestServers(ref.Server, 3)))
	}
	if v.Listed.IsZero() && v.Tools == 0 {
		return fault.New(fault.Unavailable, "server %s has not said yet which tools it has", v.Name).
			WithHint("it is asked by itself: try again in a moment")
	}
	return fault.New(fault.NotFound, "server %s has no tool %.80q%s", v.Name, ref.Tool, meant(now.NearestFunctions(v.Name, ref.Tool, 3)))
}

func meant(near []string) string {
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

// resolved finds out which tool is meant, and waits for a server that never said
// which it has.
type resolved struct {
	next  tool.Caller
	stack *Stack
}

func (r resolved) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if s, ok := r.stack.cfg.Catalog.Now().Server(c.Server); ok && s.Listed.IsZero() {
		if err := r.stack.AwaitTools(ctx, c.Server)[s.Name]; err != nil {
			return tool.Result{}, err
		}
	}
	c.Ref = r.stack.cfg.Catalog.Now().Resolve(c.Ref)
	return r.next.Call(ctx, c)
}

// numbered counts the calls that are alike in what they ask for.
type numbered struct {
	next tool.Caller

	mu   sync.Mutex
	made map[[sha256.Size]byte]int
}

func (n *numbered) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
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
