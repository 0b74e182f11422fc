package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/preflight"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Tools are the components that serve calls of code to the outside.
type Tools struct {
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

// infer is Tools.Infer, if there are tools.
func infer(ctx context.Context, t *Tools, h *home.Home) {
	if t != nil && t.Infer != nil {
		t.Infer(ctx, h)
	}
}

// toolCalls returns the calls about tools.
func toolCalls(h *host) []hostcall.Method {
	if h.tools == nil {
		return nil
	}
	return []hostcall.Method{
		hostcall.New("call_tool", hostcall.Taped, h.callTool),
		hostcall.New("check", 0, h.check),
		hostcall.New("await_tools", 0, func(ctx context.Context, a serverArgs) (any, error) {
			for _, err := range h.awaitServers(ctx, []string{a.Server}) {
				return nil, toolFailure(ctx, tool.Ref{Server: a.Server}, err)
			}
			return nil, nil
		}),
		hostcall.New("why_missing", 0, func(_ context.Context, a serverArgs) (any, error) { return whyMissing(h, a.Server, a.Name), nil }),
		hostcall.New("search_tools", hostcall.Replayed|hostcall.Taped, func(ctx context.Context, q lookup.Query) (any, error) {
			q.FromCode = true
			return h.search(ctx, q)
		}),
		hostcall.New("get_tool_definition", hostcall.Replayed|hostcall.Taped, func(ctx context.Context, q lookup.Names) (any, error) {
			q.Schemas = true // tokens do not matter to code
			return h.find().DefineNames(ctx, h.home.Shapes, q)
		}),
		serverRequest(h, "list_resources", func(ctx context.Context, a serverArgs) (any, error) { return h.resources(ctx, a.Server, false) }),
		serverRequest(h, "list_resource_templates", func(ctx context.Context, a serverArgs) (any, error) { return h.resources(ctx, a.Server, true) }),
		serverRequest(h, "read_resource", func(ctx context.Context, a serverArgs) (any, error) {
			var read toolAnswer
			err := h.asker.Resource(ctx, a.Server, a.URI, func(uri string) (err error) {
				read.Parts, err = h.connections(a.Server).ReadResource(ctx, a.Server, uri)
				return err
			})
			return read, err
		}),
		serverRequest(h, "list_prompts", func(ctx context.Context, a serverArgs) (any, error) {
			return h.connections(a.Server).ListPrompts(ctx, a.Server)
		}),
		serverRequest(h, "get_prompt", func(ctx context.Context, a serverArgs) (any, error) {
			var said []upstream.Message
			err := h.asker.Prompt(ctx, a.Server, a.Name, a.Args, func(args map[string]string) (err error) {
				said, err = h.connections(a.Server).GetPrompt(ctx, a.Server, a.Name, args)
				return err
			})
			return said, err
		}),
	}
}

// serverRequest sends a request other than a tool call to a server. Its errors are
// ToolErrors in the code as well.
func serverRequest(h *host, method string, ask func(context.Context, serverArgs) (any, error)) hostcall.Method {
	return hostcall.New(method, hostcall.Taped, func(ctx context.Context, a serverArgs) (any, error) {
		ref := tool.Ref{Server: a.Server, Tool: requestNames[method]}
		err := toolcall.CheckServer(h.now(), ref)
		if err == nil {
			err = h.asker.CheckSandbox(ctx, ref, a.forPolicy(method))
		}
		var answer any
		if err == nil {
			answer, err = h.callServerOnce(ctx, method, a, func() (any, error) { return ask(ctx, a) })
		}
		if err != nil {
			return nil, toolFailure(ctx, tool.Ref{Server: a.Server}, err)
		}
		b, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		if kinds := h.guard.InjectionKinds(string(b)); len(kinds) > 0 {
			h.flagInjection(ref, kinds)
		}
		return h.exit.Ingester().JSON(ctx, b)
	})
}

// requestNames maps the methods to the requests of MCP that they send.
var requestNames = map[string]string{
	"list_resources": "resources/list", "list_resource_templates": "resources/list", "read_resource": "resources/read",
	"list_prompts": "prompts/list", "get_prompt": "prompts/get",
}

// toolFailure converts the error of a request that was not made into a ToolError of the code, unless
// the execution itself ends.
func toolFailure(ctx context.Context, of tool.Ref, err error) error {
	if _, own := errors.AsType[*tool.Failure](err); err == nil || own || ctx.Err() != nil {
		return err
	}
	if _, ends := errors.AsType[*journal.Divergence](err); ends {
		return err
	}
	return toolcall.NotMade(of, err)
}

// resources lists the resource templates of a server, or its other resources.
func (h *host) resources(ctx context.Context, server string, templates bool) ([]upstream.Resource, error) {
	all, err := h.connections(server).ListResources(ctx, server)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r upstream.Resource) bool { return r.Template != templates }), nil
}

// serverArgs are the arguments of requests to a server.
type serverArgs struct {
	Server string            `json:"server"`
	URI    string            `json:"uri"`
	Name   string            `json:"name"`
	Args   map[string]string `json:"args"`
}

// forPolicy returns the arguments that policy evaluates for a method; see toolcall.Requester.
func (a serverArgs) forPolicy(method string) map[string]any {
	switch method {
	case "read_resource":
		return map[string]any{"uri": a.URI}
	case "get_prompt":
		return map[string]any{"name": a.Name, "arguments": a.Args}
	}
	return nil
}

type callToolArgs struct {
	Server     string           `json:"server"`
	Tool       string           `json:"tool"`
	Args       json.RawMessage  `json:"args"`
	References []tool.Reference `json:"references"`
}

// callTool calls a tool for the code. Every error is a ToolError that the code can catch.
func (h *host) callTool(ctx context.Context, a callToolArgs) (any, error) {
	ref := tool.Ref{Server: a.Server, Tool: a.Tool}
	c := tool.Call{Ref: ref, Execution: h.run.id, Session: h.req.SessionID, Args: a.Args, References: a.References, Progress: h.toolProgress(ctx, ref), Ask: h.askForTool(ctx, ref), Approve: h.approve(ctx), Decide: decide(ctx, h), Origin: originOf(h.executor),
		Hold: memory.FromContext(ctx).Answer, Store: h.storeLarge(ref), Starting: func() func() { return h.reportStarting(ctx, ref.Server) }}
	h.run.calls.Add(1)
	end := h.serial.begin(ref, h.clock)
	res, err := h.caller.Call(ctx, c)
	if slow := end(err); slow != "" {
		h.run.warn(slow)
	}
	if res.Outcome == tool.Unknown && err == nil {
		h.unknown.add(&tool.Failure{Ref: ref, Unknown: true}, false)
	}
	if res.Planned > 0 && err == nil {
		return plannedAnswer{res.Planned, res.PlannedSchema}, nil
	}
	if err == nil {
		h.home.Usage.AddToolCall(h.req.SessionID, string(a.Args), directAnswer(res))
	}
	return h.answerFrom(res, toolFailure(ctx, ref, err))
}

// directAnswer returns what a model that calls the tool itself would read: the text, which repeats
// the structured content, or that if there is no text.
func directAnswer(res tool.Result) string { return cmp.Or(res.Text(), string(res.Structured)) }

// plannedAnswer is the answer of a planned call, which the worker converts into a
// placeholder.
type plannedAnswer struct {
	Planned int             `json:"planned"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

// toolAnswer is the answer of a call, which the worker converts into a Python value.
type toolAnswer struct {
	Value      json.RawMessage `json:"value,omitempty"`
	Parts      []tool.Part     `json:"parts,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"`
	File       json.RawMessage `json:"file,omitempty"` // a largeAnswer
}

// Encode implements hostcall.Encoder. A value is not decoded: its source has validated it.
func (a toolAnswer) Encode() ([]byte, error) {
	if a.Value == nil {
		return json.Marshal(a)
	}
	const before, after = `{"value":`, `}`
	b := make([]byte, 0, len(before)+len(a.Value)+len(after))
	return append(append(append(b, before...), a.Value...), after...), nil
}

func (h *host) answerFrom(res tool.Result, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if res.File != nil {
		return toolAnswer{File: res.File}, nil
	}
	if v, ok := res.Value(); ok {
		return toolAnswer{Value: v}, nil
	}
	return toolAnswer{Parts: res.Parts, Structured: res.Structured}, nil
}

// awaitServers waits until the servers have listed their tools for the first time, and
// returns the errors of those that fail. Starting a server has its own time limit; the
// code's clock is paused.
func (h *host) awaitServers(ctx context.Context, servers []string) map[string]error {
	infer(ctx, h.tools, h.home)
	now := h.now()
	var visible, unlisted []string
	for _, name := range servers {
		s, ok := now.Server(name)
		if !ok {
			continue
		}
		visible = append(visible, name)
		if s.Connected && s.Listed.IsZero() {
			unlisted = append(unlisted, s.Name)
		}
	}
	if len(unlisted) > 0 {
		defer h.reportStarting(ctx, unlisted...)()
	}
	return h.tools.Calls.AwaitTools(ctx, visible...)
}

// search searches tools. While it waits for servers that were never listed, the code's clock is
// paused.
func (h *host) search(ctx context.Context, q lookup.Query) (any, error) {
	if slices.ContainsFunc(h.now().Servers, func(s catalog.Server) bool { return s.Connected && s.Listed.IsZero() }) {
		h.pause()
		defer h.resume(ctx) // fails only if ctx has ended, and then the call ends as well
	}
	return h.find().Answer(ctx, q)
}

func (h *host) viewer() catalog.Viewer {
	return catalog.Viewer{Tenant: h.home.ID(), Subset: h.req.Subset, Only: h.only}
}

// connections returns the tenant's connections to a server, whose name may be that of its module.
func (h *host) connections(server string) *upstream.Set {
	if h.tools.ServersOf == nil {
		return h.tools.Servers
	}
	return h.tools.ServersOf(h.home.ID(), server)
}

// now returns the part of the catalog that the code may use.
func (h *host) now() *catalog.Snapshot { return h.tools.Catalog.For(h.viewer()) }

// find returns the Finder of the tools that the code may use.
func (h *host) find() *lookup.Finder {
	f := lookup.WithShapes(h.tools.Find.For(h.viewer()).WithUses(h.home.Learned), h.home.Shapes)
	if h.only != nil {
		return f
	}
	return f.WithSkills(h.home.Skills)
}

// findings are the errors that preflight found.
type findings struct {
	Findings []string `json:"findings"`
}

func (h *host) check(ctx context.Context, uses preflight.Uses) (any, error) {
	if hand := h.tools.HandWritten; hand != nil {
		uses = uses.WithoutHandWritten(hand())
	}
	why := h.awaitServers(ctx, uses.Servers())
	f := findings{preflight.Check(h.now(), why, h.tools.Calls.Schema, uses)}
	if f.Findings == nil {
		f.Findings = []string{}
	}
	h.refused.Store(len(f.Findings) > 0)
	return f, nil
}

// whyMissing returns why code cannot import a server, or a function of it: "" if it can, or if a module
// is handwritten.
func whyMissing(h *host, server, function string) string {
	uses := preflight.Uses{Imports: []preflight.Import{{Server: server, Function: function, Line: 1}}}
	if hand := h.tools.HandWritten; hand != nil {
		uses = uses.WithoutHandWritten(hand())
	}
	for _, f := range preflight.Find(h.now(), nil, h.tools.Calls.Schema, uses) {
		return f.Text
	}
	return ""
}
