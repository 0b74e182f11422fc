// Package tools serves the host calls of code about tools and servers: calls of tools and other requests
// to servers, searches, and the check of the tools that code names before it runs.
//
// A call of a tool goes through the layers of package toolcall. Answers that are too large for memory are
// stored in the workspace. The package keeps nothing after an execution.
package tools

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/queue"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/preflight"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Components serve calls of code to the outside.
type Components struct {
	Catalog *catalog.Catalog // required
	Calls   *toolcall.Stack  // required
	Find    *lookup.Finder   // required
	Servers *upstream.Set    // required
	// ServersOf returns the connections of a tenant to a server; nil means Servers.
	ServersOf func(id tenant.ID, server string) *upstream.Set
	// HandWritten lists hand-written modules by package; the key "" means that the whole
	// package is hand-written. Preflight does not check them. nil means none.
	HandWritten func() map[string]map[string]bool
	// Infer writes the types of results that were inferred for a tenant into its modules; nil means that
	// they do not show them.
	Infer func(context.Context, *home.Home)
}

// View is what code may see of the tools.
type View struct {
	*Components
	catalog.Viewer
}

// For returns what code of a tenant in a subset of the servers may see.
func (c *Components) For(id tenant.ID, subset string) View {
	return View{c, catalog.Viewer{Tenant: id, Subset: subset}}
}

// Now returns the part of the catalog that the code may use.
func (v View) Now() *catalog.Snapshot { return v.Catalog.For(v.Viewer) }

// Checked returns the uses that can be checked: those of modules that are not hand-written.
func (v View) Checked(u preflight.Uses) preflight.Uses {
	if v.HandWritten == nil {
		return u
	}
	return u.WithoutHandWritten(v.HandWritten())
}

// Await waits until the servers that are in the catalog have listed their tools for the first time, and
// returns the errors of those that fail. Starting a server has its own time limit.
func (v View) Await(ctx context.Context, servers []string) map[string]error {
	now := v.Now()
	return v.Calls.AwaitTools(ctx, slices.DeleteFunc(slices.Clone(servers), func(name string) bool {
		_, ok := now.Server(name)
		return !ok
	})...)
}

// connections returns the tenant's connections to a server, whose name may be that of its module.
func (v View) connections(server string) *upstream.Set {
	if v.ServersOf == nil {
		return v.Servers
	}
	return v.ServersOf(v.Tenant, server)
}

// Infer calls Components.Infer, if there is one.
func Infer(ctx context.Context, c *Components, h *home.Home) {
	if c != nil && c.Infer != nil {
		c.Infer(ctx, h)
	}
}

// Config of a Host.
type Config struct {
	View
	Owner              toolcall.Owner                // of the calls, who sees the View; OnInjection is required
	Wrap               func(tool.Caller) tool.Caller // around the calls of tools
	Execution, Session string
	Guard              *guardrail.Guard // nil checks nothing
	queue.Pausable                      // while servers start
	// Record makes a call, or returns the answer that is on record for it.
	Record func(context.Context, journal.HostCall, func(context.Context) (any, error)) (any, error)
	// Report reports the progress of a call; total 0 means unknown.
	Report func(ctx context.Context, done, total float64, message string)
	Warn   func(string) // adds a warning to the result
}

// Host serves the calls of the code of one execution. It is safe for concurrent use.
type Host struct {
	Config
	caller  tool.Caller
	asker   *toolcall.Requester
	refused atomic.Bool
	serial  serialCalls
}

// New returns a Host.
func New(cfg Config) *Host {
	h := &Host{Config: cfg, caller: cfg.Wrap(cfg.Calls.For(cfg.Owner)), asker: cfg.Calls.Requester(cfg.Owner, cfg.Execution, cfg.Session)}
	h.asker.Dry = cfg.Owner.Plan != nil
	return h
}

// Methods returns the host calls; none of a nil Host.
func (h *Host) Methods() []hostcall.Method {
	if h == nil {
		return nil
	}
	return append(requests(h),
		hostcall.New("call_tool", hostcall.Taped, h.call),
		hostcall.New("check", 0, h.check),
		hostcall.New("await_tools", 0, h.awaitTools),
		hostcall.New("why_missing", 0, h.whyMissing),
		hostcall.New("search_tools", hostcall.Replayed|hostcall.Taped, h.search),
		hostcall.New("get_tool_definition", hostcall.Replayed|hostcall.Taped, h.define),
	)
}

// Refused reports whether the check has found errors in the code.
func (h *Host) Refused() bool { return h != nil && h.refused.Load() }
