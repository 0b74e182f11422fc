// Package mcpserver defines the MCP tools and resources: descriptions, argument checks,
// answers and errors.
//
// A profile selects the listed tools. Package redact redacts every answer before package
// wire sends it. Each tool is a few lines that call the package which implements it. A
// Server is immutable and safe for concurrent use.
package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/task"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Config of a Server.
type Config struct {
	Version string          // of the daemon; required
	Python  string          // version of CPython; required
	Profile builtin.Profile // empty means Standard
	// ProfileOf returns the profile of a tenant, "" for Profile; nil means Profile for all. It has
	// no effect with Passthrough.
	ProfileOf func(tenant.ID) builtin.Profile
	// HasSubset reports whether a subset of the servers is configured; nil means none.
	HasSubset func(name string) bool
	Tenant    tenant.ID         // the tenant of connections without a token; required
	Tenants   *home.Homes       // required
	Runner    *execution.Runner // required
	Tools     []builtin.Tool    // besides those of the core
	Globals   string            // of code, besides those of the core, for the description of execute_code
	Tasks     *task.Solver      // nil means that there is no execute_task
	// Background is woken when a background execution is due; nil means that there are none.
	Background *background.Scheduler
	// KeepBackground is how long their results are kept; 0 means 24 hours.
	KeepBackground time.Duration
	Exports        builtin.Exports // tools of single tenants; nil means none
	Privacy        *redact.Rules   // required
	// Key, of 32 bytes, authenticates the request state of 2026-07-28 clients; nil means a
	// random key, so that no other Server accepts the state.
	Key  []byte
	Find *lookup.Finder // searches tools; nil means no tools
	// Packages returns the names of the packages that code of a tenant may import; nil
	// means none.
	Packages func(tenant.ID) []string
	// Network returns the hosts to which code of a tenant may send requests; nil means none.
	Network func(tenant.ID) []string
	// Servers returns the modules of the connected servers, for execute_code's description;
	// nil means none.
	Servers func() []string
	// Revision changes with the settings of tenants; nil means that they do not change.
	Revision func() string
	// Passthrough lists the servers' tools; required by the profile passthrough.
	Passthrough *passthrough.Face
	// Sandbox returns the name of a tenant's backend, and an error if it does not work.
	// Required.
	Sandbox func(context.Context, tenant.ID) (backend string, err error)
	// Audit receives a line for each request state of another tenant; nil means no call.
	Audit func(audit.Line)
	// Access is called at the end of each request; nil means not.
	Access func(wire.Access)
	// Linger and Grace limit running calls after the client disconnected and after a
	// shutdown began; 0 means the defaults of wire.
	Linger, Grace time.Duration
	Memory        *memory.Budget      // of requests, by tenant; nil means no limit
	Telemetry     *telemetry.Recorder // nil means no telemetry
	Log           *slog.Logger        // nil means discard
	// ConfigFile is the configuration file that the operator named, for commands in messages;
	// "" means none. Callers that authenticate do not see it.
	ConfigFile string
}

// approvePages is the path of the pages of approvals; see package console.
const approvePages = "/approve/"

// commands returns what commands in messages for a caller need.
func (c Config) commands(caller, origin string, own bool) fault.Commands {
	with := fault.Commands{Tenant: caller}
	if caller == tenant.Local.String() {
		with.Tenant = ""
	}
	if origin != "" {
		with.Pages = origin + approvePages
	}
	if own {
		with.Config = c.ConfigFile
	}
	return with
}

// withoutPages returns what the commands in the errors of code need: the link precedes them in its result.
func withoutPages(c fault.Commands) fault.Commands {
	c.Pages = ""
	return c
}

// Server is the MCP server of a daemon.
type Server struct {
	cfg        Config
	wire       *wire.Server
	key        [32]byte                   // authenticates request state
	smallest   map[string]builtin.Profile // the smallest profile that lists each tool
	tokenTools map[string]bool            // tools that need privacy
	waiting    waitingTasks
	recent     recentAnswers
	shown      shownQuestions // of tasks

	mu    sync.Mutex
	lists map[audience][]wire.Tool
}

// New checks cfg and returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Profile == "" {
		cfg.Profile = builtin.Standard
	}
	if cfg.Profile.Rank() < 0 && cfg.Profile != builtin.Passthrough {
		return nil, fault.New(fault.Invalid, "profile %.40q does not exist: use lean, standard, full or passthrough", cfg.Profile)
	}
	if cfg.Profile == builtin.Passthrough && cfg.Passthrough == nil {
		return nil, errors.New("mcpserver: the profile passthrough requires Passthrough")
	}
	if cfg.Tenant.IsZero() || cfg.Tenants == nil || cfg.Runner == nil || cfg.Privacy == nil || cfg.Sandbox == nil {
		return nil, errors.New("mcpserver: tenant, tenants, runner, privacy and sandbox are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Revision == nil {
		cfg.Revision = func() string { return "" }
	}
	s := &Server{cfg: cfg, smallest: map[string]builtin.Profile{}, tokenTools: map[string]bool{}, lists: map[audience][]wire.Tool{}}
	if copy(s.key[:], cfg.Key) == 0 {
		rand.Read(s.key[:])
	}
	face := wire.Config{Name: "sandpiper", Title: "Sandpiper", Version: cfg.Version, Caller: cfg.Tenant.String(), AskScope: string(access.Approve), Linger: cfg.Linger, Grace: cfg.Grace, Memory: cfg.Memory, Log: cfg.Log}
	face.Select, face.Access, face.Logs = s.choose, cfg.Access, s.logs()
	full := s.audience(builtin.Full, catalog.Viewer{Tenant: cfg.Tenant})
	full.mode = redact.Egress // some tenant may have tokens
	for _, t := range s.tools(full) {
		s.smallest[t.Name] = t.Profile
	}
	if cfg.Profile == builtin.Passthrough {
		face.Relay = s.relay()
	} else {
		for _, t := range s.privacyTools(full) {
			s.tokenTools[t.Name] = true
		}
		face.Tools, face.Resources, face.Skills, face.Complete = s.of(full), s.resources(), s.skillFolders(), s.completer()
		face.Tasks = s.tasks()
		face.ToolsVersion = func() string { return cfg.Revision() + " " + strings.Join(s.servers(), " ") }
		if cfg.Exports != nil {
			face.ToolsVersion = func() string {
				return cfg.Revision() + " " + strings.Join(s.servers(), " ") + "\n" + cfg.Exports.Version()
			}
			face.CallerVersion, face.MoreScope = s.callerVersion, string(access.Execute)
		}
	}
	w, err := wire.New(face)
	s.wire = w
	return s, err
}

// ServeStdio speaks with one client until in ends or ctx does.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.wire.ServeStdio(ctx, s.cfg.Tenant.String(), in, out)
}

// ServeTenant is ServeStdio for a client that is a tenant.
func (s *Server) ServeTenant(ctx context.Context, id tenant.ID, in io.Reader, out io.Writer) error {
	return s.wire.ServeStdio(ctx, id.String(), in, out)
}

// tools returns all tools, with the descriptions for an audience.
func (s *Server) tools(a audience) []builtin.Tool {
	return slices.Concat([]builtin.Tool{s.executeTool(a), s.resumeTool()},
		s.sessionTools(),
		toolTools{s.cfg.Find}.all(),
		fileTools(),
		skillTools{s.cfg.Runner}.all(),
		s.cfg.Tools,
		s.taskTools(),
		s.backgroundTools(),
		s.privacyTools(a),
		s.statsTools())
}

// Listed is a tool as listed to clients.
type Listed struct {
	Name, Description string
	Schema            json.RawMessage // of the arguments
}

// Listing returns the tools that profile p lists, whatever profile this server has.
func (s *Server) Listing(p builtin.Profile) (all []Listed) {
	a := s.own(s.cfg.Tenant)
	a.profile = p
	for _, t := range s.of(a) {
		all = append(all, Listed{t.Name, t.Description, t.Schema})
	}
	return all
}

func (s *Server) of(a audience) []wire.Tool {
	var listed []wire.Tool
	for _, t := range s.tools(a) {
		if a.profile == builtin.Lean && t.Schema == nil {
			t.Schema = builtin.LeanSchema(t.Params)
		}
		if a.profile.Shows(t.Profile) {
			listed = append(listed, wireTool(s, t))
		}
	}
	return listed
}

// wireTool wraps t for the protocol: it opens the tenant's home for the call, and redacts
// the answer.
func wireTool(s *Server, t builtin.Tool) wire.Tool {
	args := t.Schema
	if args == nil {
		args = builtin.Schema(t.Params)
	}
	return wire.Tool{
		Name: t.Name, Description: t.Description, Schema: args, Hints: t.Hints, MaxResultChars: t.MaxChars, AlwaysLoad: t.AlwaysLoad, SearchHint: t.SearchHint,
		Scope: string(cmp.Or(t.Scope, access.Execute)),
		Handle: func(ctx context.Context, c wire.Call) (redact.Redacted, error) {
			ctx, span := s.cfg.Telemetry.Start(s.cfg.Telemetry.Continue(ctx, c.Trace), telemetry.Request, telemetry.Facts{Tenant: c.Caller, Tool: cmp.Or(t.Label, t.Name)})
			outcome := "error"
			defer func() { span.End(outcome) }()
			if err := builtin.CheckSizes(t.Name, t.Params, c.Arguments); err != nil {
				return s.gateWithoutTenant().Redact(ctx, s.failed(t.Name, err))
			}
			ctx, release := withShare(ctx, s.cfg.Memory, c.Caller)
			defer release()
			home, err := s.acquire(ctx, c.Caller)
			if err != nil {
				return s.gateWithoutTenant().Redact(ctx, s.failed(t.Name, err))
			}
			answered := builtin.Call{Call: c, Home: home, Tool: &t, Privacy: s.cfg.Privacy.Of(home.ID()), Session: new(sessionOf(c.Arguments)), Outcome: &outcome, Note: new(string), Commands: s.cfg.commands(c.Caller, c.Origin, c.Own)}
			if approval.ViaOf(home.Approvals) == approval.ViaOperator {
				answered.Ask, answered.Require, answered.Replies = nil, nil, nil
			}
			answered.ModelInput = redact.NewModelInput(c.Arguments, "context_vars") // its values are not the model's own text
			span.Update(func(f *telemetry.Facts) { f.BytesIn = len(c.Arguments) })
			defer func() { span.Update(func(f *telemetry.Facts) { f.Session = *answered.Session }) }()
			return s.serve(ctx, answered)
		},
	}
}

// run runs a tool. One that starts an execution is called again with the state of its request.
func (s *Server) run(ctx context.Context, c builtin.Call) (redact.Message, error) {
	switch {
	case c.Tool.Start == nil:
		return c.Tool.Run(ctx, c)
	case c.State != "":
		return s.answered(ctx, c)
	}
	x, err := c.Tool.Start(ctx, c)
	if err != nil {
		return redact.Message{}, err
	}
	return s.follow(ctx, c, x)
}

// serve answers one call and releases its home.
func (s *Server) serve(ctx context.Context, c builtin.Call) (redacted redact.Redacted, err error) {
	defer func() {
		// Acknowledge writes only after Release succeeded.
		if e := c.Home.Release(context.WithoutCancel(ctx)); e != nil && err == nil {
			redacted, err = s.gateWithoutTenant().Redact(ctx, s.failed(c.Tool.Name, e))
		}
	}()
	m, err := s.run(ctx, c)
	if *c.Outcome = "answered"; err != nil || m.Failed {
		*c.Outcome = "failed"
	}
	if errors.Is(err, wire.ErrState) {
		return redact.Redacted{}, err
	}
	if err != nil {
		m = s.failed(c.Tool.Name, err)
	}
	switch b := m.Body.(type) {
	case failure:
		b.Error = c.Commands.Complete(b.Error)
		m.Body = b
	case suspended:
		b.Error = c.Commands.Complete(b.Error)
		m.Body = b
	}
	m.Note, m.CountTokens = *c.Note, true
	redacted, err = c.Gate().Redact(context.WithoutCancel(ctx), m)
	if err != nil { // for example, tokens were not stored
		if redacted, err = s.gateWithoutTenant().Redact(ctx, s.failed(c.Tool.Name, err)); err != nil {
			return redacted, err
		}
	}
	text, _, _, _ := redacted.Content()
	if !m.Reveal {
		s.recent.add(c.Home.ID(), text)
	}
	c.Home.Usage.AddModelText(*c.Session, string(c.Arguments), text)
	return redacted, nil
}

// gateWithoutTenant returns the gate for text that belongs to no tenant.
func (s *Server) gateWithoutTenant() *redact.Gate { return s.cfg.Privacy.For(redact.Owner{}) }

// sessionOf returns the session id in arguments, without checking them.
func sessionOf(args json.RawMessage) string {
	var of struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(args, &of)
	return of.Session
}

// acquire opens the home of a caller; an empty caller is an error.
func (s *Server) acquire(ctx context.Context, caller string) (*home.Home, error) {
	id, err := tenant.ParseStored(caller)
	if err != nil {
		return nil, err
	}
	return s.cfg.Tenants.Acquire(ctx, id)
}
