package tools

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// requests are the calls that send a request other than a tool call to a server.
func requests(h *Host) []hostcall.Method {
	return []hostcall.Method{
		request(h, "list_resources", func(ctx context.Context, a serverArgs) (any, error) { return h.resources(ctx, a.Server, false) }),
		request(h, "list_resource_templates", func(ctx context.Context, a serverArgs) (any,
			error) {
			return h.resources(ctx, a.Server, true)
		}),
		request(h, "read_resource", func(ctx context.Context, a serverArgs) (any, error) {
			var read Answer
			err := h.asker.Resource(ctx, a.Server, a.URI, func(uri string) (err error) {
				read.Parts, err = h.connections(a.Server).ReadResource(ctx, a.Server, uri)
				return err
			})
			return read, err
		}),
		request(h, "list_prompts", func(ctx context.Context, a serverArgs) (any, error) {
			return h.connections(a.Server).ListPrompts(ctx, a.Server)
		}),
		request(h, "get_prompt", func(ctx context.Context, a serverArgs) (any, error) {
			var messages []upstream.Message
			err := h.asker.Prompt(ctx, a.Server, a.Name, a.Args, func(args map[string]string) (err error) {
				messages, err = h.connections(a.Server).GetPrompt(ctx, a.Server, a.Name, args)
				return err
			})
			return messages, err
		}),
	}
}

// request returns a method that sends a request other than a tool call to a server. Its errors are
// ToolErrors in the code as well.
func request(h *Host, method string, ask func(context.Context, serverArgs) (any, error)) hostcall.Method {
	return hostcall.New(method, hostcall.Taped, func(ctx context.Context, a serverArgs) (any, error) {
		ref := tool.Ref{Server: a.Server, Tool: requestNames[method]}
		err := toolcall.CheckServer(h.Now(), ref)
		if err == nil {
			err = h.asker.CheckSandbox(ctx, ref, a.forPolicy(method))
		}
		var answer any
		if err == nil {
			answer, err = recordRequest(ctx, h, method, a, func(ctx context.Context) (any, error) { return ask(ctx, a) })
		}
		if err != nil {
			return nil, failure(ctx, tool.Ref{Server: a.Server}, err)
		}
		b, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		if kinds := h.Guard.InjectionKinds(string(b)); len(kinds) > 0 {
			h.Owner.OnInjection(ref, kinds)
		}
		return h.Owner.Gate.Ingester().JSON(ctx, b)
	})
}

// recordRequest sends a request, or returns the answer that is on record for it.
func recordRequest(ctx context.Context, h *Host, method string, of serverArgs, send func(context.Context) (any, error)) (any, error) {
	args, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return h.Record(ctx, journal.HostCall{Method: method, Ref: tool.Ref{Server: of.Server}, Args: args}, send)
}

// requestNames maps the methods to the requests of MCP that they send.
var requestNames = map[string]string{
	"list_resources": "resources/list", "list_resource_templates": "resources/list", "read_resource": "resources/read",
	"list_prompts": "prompts/list", "get_prompt": "prompts/get",
}

// failure converts the error of a request that was not made into a ToolError of the code, unless
// the execution itself ends.
func failure(ctx context.Context, of tool.Ref, err error) error {
	if _, own := errors.AsType[*tool.Failure](err); err == nil || own || ctx.Err() != nil {
		return err
	}
	if _, ends := errors.AsType[*journal.Divergence](err); ends {
		return err
	}
	return toolcall.NotMade(of, err)
}

// resources lists the resource templates of a server, or its other resources.
func (h *Host) resources(ctx context.Context, server string, templates bool) ([]upstream.Resource, error) {
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
