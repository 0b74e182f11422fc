// Package mcpserver defines the MCP tools and resources: descriptions, argument checks,
// answers and errors.
//
// A profile selects the listed tools. Package redact redacts every answer before package
// wire sends it. Each tool is a few lines that call the package which implements it. A
// Server is immutable and safe for concurrent use.
package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
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
	// no effect with Relay.
	ProfileOf func(tenant.ID) builtin.Profile
	// HasSubset reports whether a subset of the servers is configured; nil means none.
	HasSubset func(name string) bool
	Tenant    tenant.ID           // the tenant of connections without a token; required
	Tenants   *home.Homes         // required
	Runner    *execution.Runner   // required
	Tools     []builtin.Tool      // besides those of the core
	Resources []builtin.Resources // besides the files of the workspace
	Globals   string              // of code, besides those of the core, for the description of execute_code
	About     string              // a line for the description of execute_code; "" means none
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
	// Relay answers instead of this server, if Profile is its own; nil means that no profile has one.
	Relay *builtin.Relay
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

// New checks cfg and returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Profile == "" {
		cfg.Profile = builtin.Standard
	}
	if cfg.Profile.Rank() < 0 && (cfg.Relay == nil || cfg.Relay.Profile != cfg.Profile) {
		return nil, fault.New(fault.Invalid, "profile %.40q does not exist: use lean, standard or full", cfg.Profile)
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
	wireCfg := wire.Config{
		Name:     "sandpiper",
		Title:    "Sandpiper",
		Version:  cfg.Version,
		Caller:   cfg.Tenant.String(),
		AskScope: string(access.Approve),
		Linger:   cfg.Linger,
		Grace:    cfg.Grace,
		Memory:   cfg.Memory,
		Log:      cfg.Log,
	}
	list := offers{s}
	wireCfg.Select, wireCfg.Access, wireCfg.Logs = list.choose, cfg.Access, noticeLog{s}.logs()
	full := list.audience(builtin.Full, catalog.Viewer{Tenant: cfg.Tenant})
	full.mode = redact.Egress // some tenant may have tokens
	for _, t := range list.tools(full) {
		s.smallest[t.Name] = t.Profile
	}
	if cfg.Profile.Rank() < 0 {
		wireCfg.Relay = relayed{s}.relay()
	} else {
		for _, t := range (privacyTools{s}).all(full) {
			s.tokenTools[t.Name] = true
		}
		wireCfg.Tools, wireCfg.Complete = list.of(full), completions{s}.completer()
		wireCfg.Resources, wireCfg.Extensions = resourceReader{s}.resources(), resourceReader{s}.extensions()
		wireCfg.Tasks = protocolTasks{s}.tasks()
		wireCfg.ToolsVersion = func() string { return cfg.Revision() + " " + strings.Join(list.servers(), " ") }
		if cfg.Exports != nil {
			wireCfg.ToolsVersion = func() string {
				return cfg.Revision() + " " + strings.Join(list.servers(), " ") + "\n" + cfg.Exports.Version()
			}
			wireCfg.CallerVersion, wireCfg.MoreScope = list.callerVersion, string(access.Execute)
		}
	}
	w, err := wire.New(wireCfg)
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

// Listed is a tool as listed to clients.
type Listed struct {
	Name, Description string
	Schema            json.RawMessage // of the arguments
}

// Listing returns the tools that profile p lists, whatever profile this server has.
func (s *Server) Listing(p builtin.Profile) (all []Listed) {
	a := offers{s}.own(s.cfg.Tenant)
	a.profile = p
	for _, t := range (offers{s}).of(a) {
		all = append(all, Listed{t.Name, t.Description, t.Schema})
	}
	return all
}
