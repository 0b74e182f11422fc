package tools

import (
	"context"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/queue"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// Config of a Host.
type Config struct {
	Components         *Components
	Owner              toolcall.Owner                // of the calls; OnInjection is required
	Wrap               func(tool.Caller) tool.Caller // around the calls of tools
	Execution, Session string
	Guard              *guardrail.Guard // nil checks nothing
	queue.Pausable                      // while servers start
	// Record makes a call, or returns the answer that is on record for it.
	Record func(context.Context, journal.HostCall, func() (any, error)) (any, error)
	// Report reports the progress of a call; total 0 means unknown.
	Report func(ctx context.Context, done, total float64, message string)
	Warn   func(string) // adds a warning to the result
}

// Host serves the calls of the code of one execution. It is safe for concurrent use.
type Host struct {
	Config
	View
	caller  tool.Caller
	asker   *toolcall.Requester
	refused atomic.Bool
	serial  serialCalls
}

// New returns a Host.
func New(cfg Config) *Host {
	o := cfg.Owner
	h := &Host{Config: cfg, View: View{cfg.Components, catalog.Viewer{Tenant: o.Home.ID(), Subset: o.Subset, Only: o.Only}}}
	h.caller = cfg.Wrap(cfg.Components.Calls.For(o))
	h.asker = cfg.Components.Calls.Requester(o, cfg.Execution, cfg.Session)
	h.asker.Dry = o.Plan != nil
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
