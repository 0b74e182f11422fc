package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/preflight"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Tools are what code may call beyond its sandbox.
type Tools struct {
	Catalog *catalog.Catalog // required
	Calls   *toolcall.Stack  // required
	Find    *lookup.Finder   // required
	Servers *upstream.Set    // required
	// ByHand names modules below servers that somebody wrote, by package; under
	// "" whether all of the package is. They are not checked before code runs.
	HandWritten map[string]map[string]bool
}

// toolcalls are the methods about tools.
var toolcalls = map[string]func(context.Context, *host, []byte) (any, error){
	"call_tool": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a callTool) (any, error) { return h.callTool(ctx, a) })
	},
	"check": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(u preflight.Uses) (any, error) { return h.check(ctx, u) })
	},
	"search_tools": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(q lookup.Query) (any, error) {
			q.FromCode = true
			return h.tools.Find.Search(ctx, q)
		})
	},
	"get_tool_definition": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a define) (any, error) {
			return h.tools.Find.Define(ctx, h.home.Shapes, a.Name, a.Category)
		})
	},
	"list_resources":          asked("list_resources", func(ctx context.Context, h *host, a ofServer) (any, error) { return h.resources(ctx, a.Server, false) }),
	"list_resource_templates": asked("list_resource_templates", func(ctx context.Context, h *host, a ofServer) (any, error) { return h.resources(ctx, a.Server, true) }),
	"read_resource": asked("read_resource", func(ctx context.Context, h *host, a ofServer) (any, error) {
		var read answered
		err := h.asker.Resource(ctx, a.Server, a.URI, func() (err error) {
			read.Parts, err = h.tools.Servers.ReadResource(ctx, a.Server, a.URI)
			return err
		})
		return read, err
	}),
	"list_prompts": asked("list_prompts", func(ctx context.Context, h *host, a ofServer) (any, error) {
		return h.tools.Servers.ListPrompts(ctx, a.Server)
	}),
	"get_prompt": asked("get_prompt", func(ctx context.Context, h *host, a ofServer) (any, error) {
		var said []upstream.Message
		err := h.asker.Prompt(ctx, a.Server, a.Name, a.Args, func() (err error) {
			said, err = h.tools.Servers.GetPrompt(ctx, a.Server, a.Name, a.Args)
			return err
		})
		return said, err
	}),
}

// asked asks a server for something that is no tool; what goes wrong is a
// ToolError to the code all the same.
func asked(method string, ask func(context.Context, *host, ofServer) (any, error)) func(context.Context, *host, []byte) (any, error) {
	return func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a ofServer) (any, error) {
			answer, err := h.asksServer(ctx, method, a, func() (any, error) { return ask(ctx, h, a) })
			if err != nil {
				return nil, toolFailure(ctx, tool.Ref{Server: a.Server}, err)
			}
			b, err := json.Marshal(answer)
			if err != nil {
				return nil, err
			}
			if kinds := h.guard.InjectionKinds(string(b)); len(kinds) > 0 {
				h.marked(tool.Ref{Server: a.Server}, kinds)
			}
			return h.exit.IngestJSON(ctx, b)
		})
	}
}

// toolFailure makes an error of a call one that code catches as the tool's, unless
// the execution itself ends.
func toolFailure(ctx context.Context, of tool.Ref, err error) error {
	if _, own := errors.AsType[*tool.Failure](err); err == nil || own || ctx.Err() != nil {
		return err
	}
	if _, ends := errors.AsType[*journal.Divergence](err); ends {
		return err
	}
	text := fault.Message(err)
	if hint := fault.Hint(err); hint != "" {
		text += ": " + hint
	}
	return &tool.Failure{Ref: of, Message: text}
}

// resources lists those of a server that are templates, or those that are not.
func (h *host) resources(ctx context.Context, server string, templates bool) ([]upstream.Resource, error) {
	all, err := h.tools.Servers.ListResources(ctx, server)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r upstream.Resource) bool { return r.Template != templates }), nil
}

type define struct {
	Name     string `json:"tool_name"`
	Category string `json:"category"`
}

// ofServer names something of a server.
type ofServer struct {
	Server string            `json:"server"`
	URI    string            `json:"uri"`
	Name   string            `json:"name"`
	Args   map[string]string `json:"args"`
}

type callTool struct {
	Server     string           `json:"server"`
	Tool       string           `json:"tool"`
	Args       json.RawMessage  `json:"args"`
	References []tool.Reference `json:"references"`
}

// callTool calls a tool for the code. Whatever comes in between is an error of
// that tool to the code, which can catch it.
func (h *host) callTool(ctx context.Context, a callTool) (any, error) {
	ref := tool.Ref{Server: a.Server, Tool: a.Tool}
	c := tool.Call{Ref: ref, Execution: h.run.id, Session: h.session, Args: a.Args, References: a.References, Progress: h.toolProgress(ctx, ref), Ask: h.toolAsk(ctx, ref), Approve: h.approve(ctx),
		Starting: func() func() { return h.starting(ctx, ref.Server) }}
	h.run.calls.Add(1)
	if err := h.told(ctx, a.Server); err != nil {
		return nil, toolFailure(ctx, ref, err)
	}
	res, err := h.caller.Call(ctx, c)
	if res.Planned > 0 && err == nil {
		return plannedAnswer{res.Planned, h.tools.Calls.ResultSchema(ctx, h.home, ref)}, nil
	}
	if err == nil {
		h.home.Usage.AddToolCall(h.session, string(a.Args), string(res.Structured)+res.Text())
	}
	return h.answer(res, toolFailure(ctx, ref, err))
}

// told waits until a server has told its tools, if it never did.
func (h *host) told(ctx context.Context, server string) error {
	if s, ok := h.tools.Catalog.Now().Server(server); !ok || !s.Listed.IsZero() {
		return nil
	}
	for _, err := range h.know(ctx, []string{server}) {
		return fault.Wrap(fault.Unavailable, err, "server %s has not told its tools: %s", server, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

// toolProgress passes on what a tool says of how far it is.
func (h *host) toolProgress(ctx context.Context, ref tool.Ref) func(done, total float64, message string) {
	return func(done, total float64, message string) {
		if message == "" {
			message = ref.String()
		}
		_, _ = h.progress(ctx, Progress{Done: max(0, done), Total: max(0, total), Message: message})
	}
}

// toolAsk puts what a server asks during a call to the person, if it is something
// that a person can fill in.
func (h *host) toolAsk(ctx context.Context, ref tool.Ref) func(context.Context, tool.Question) (tool.Reply, error) {
	return func(asking context.Context, q tool.Question) (tool.Reply, error) {
		schema, resolved, wrapped, err := askSchema(q.Schema)
		if err == nil && wrapped {
			err = fault.New(fault.Invalid, "the schema is not one of an object")
		}
		if text := strings.TrimSpace(q.Text); text == "" || len(text) > maxQuestion {
			err = fault.New(fault.Invalid, "the question has %d bytes; it must have between 1 and %d", len(text), maxQuestion)
		}
		if err != nil {
			return tool.Reply{}, err
		}
		return h.put(ctx, asking, Question{From: ref.String(), Text: q.Text, Schema: schema}, resolved)
	}
}

// plannedAnswer is what the worker makes a placeholder of.
type plannedAnswer struct {
	Planned int             `json:"planned"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

// answered is what the worker makes a value of.
type answered struct {
	Value      json.RawMessage `json:"value,omitempty"`
	Parts      []tool.Part     `json:"parts,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"`
}

func (h *host) answer(res tool.Result, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if v, ok := res.Value(); ok {
		h.received.Add(int64(len(v)))
		return answered{Value: v}, nil
	}
	for _, p := range res.Parts {
		h.received.Add(int64(len(p.Text) + len(p.Data)))
	}
	return answered{Parts: res.Parts, Structured: res.Structured}, nil
}

// know waits until servers have listed their tools, as far as they never did, and
// returns why some have not. Each server has its own time to start; the code's
// stands still meanwhile.
func (h *host) know(ctx context.Context, servers []string) map[string]error {
	now := h.tools.Catalog.Now()
	var unlisted []string
	for _, name := range servers {
		if s, ok := now.Server(name); ok && s.Connected && s.Listed.IsZero() {
			unlisted = append(unlisted, s.Name)
		}
	}
	if len(unlisted) > 0 {
		defer h.starting(ctx, unlisted...)()
	}
	return h.tools.Calls.AwaitTools(ctx, servers...)
}

// tellStarting is how often it is reported that a server is still starting.
const tellStarting = 5 * time.Second

// starting reports that servers are being started, and lets the time of the code
// stand still until started is called.
func (h *host) starting(ctx context.Context, servers ...string) (started func()) {
	const most = 5
	names := strings.Join(servers[:min(most, len(servers))], ", ")
	if more := len(servers) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	began, done := time.Now(), make(chan struct{})
	var reports sync.WaitGroup
	reports.Go(func() {
		tick := time.NewTicker(tellStarting)
		defer tick.Stop()
		for {
			_, _ = h.progress(ctx, Progress{Done: time.Since(began).Round(time.Second).Seconds(), Message: "waiting for " + names + " to start"})
			select {
			case <-tick.C:
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	h.pause()
	return func() {
		close(done)
		reports.Wait()
		_ = h.resume(ctx) // fails only with ctx, which ends the call as well
	}
}

// findings are what the check before running found.
type findings struct {
	Findings []string `json:"findings"`
}

func (h *host) check(ctx context.Context, uses preflight.Uses) (any, error) {
	uses = uses.WithoutHandWritten(h.tools.HandWritten)
	why := h.know(ctx, uses.Servers())
	f := findings{preflight.Check(h.tools.Catalog.Now(), why, h.tools.Calls.Schema, uses)}
	if f.Findings == nil {
		f.Findings = []string{}
	}
	h.refused.Store(len(f.Findings) > 0)
	return f, nil
}

// traffic is what an execution had to do with tools.
type traffic struct {
	received atomic.Int64 // bytes of their answers
	refused  atomic.Bool  // the check before running found something
}
