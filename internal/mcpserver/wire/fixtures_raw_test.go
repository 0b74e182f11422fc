//lint:file-ignore SA1019 older clients still log, sample and list roots, and the suites ask for it

package wire

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Fixtures of the conformance suites that cannot be implemented as a Tool.

// rawTools returns the tools of these fixtures, for server.
func rawTools(server *mcp.Server) map[string]mcp.ToolHandler {
	return map[string]mcp.ToolHandler{
		"test_audio_content":     says(&mcp.AudioContent{Data: silence, MIMEType: "audio/wav"}),
		"test_embedded_resource": says(embedded("test://embedded")),
		"test_multiple_content_types": says(&mcp.TextContent{Text: "three kinds"},
			&mcp.ImageContent{Data: pixel, MIMEType: "image/png"}, embedded("test://embedded-too")),
		"test_tool_with_logging":                     logs,
		"test_logging_tool":                          logs,
		"test_sampling":                              samples,
		"test_missing_capability":                    needsSampling,
		"test_reconnection":                          closesStream,
		"test_trigger_tool_change":                   changesTools(server),
		"test_trigger_prompt_change":                 changesPrompts(server),
		"test_input_required_result_sampling":        requires("", wantsModel),
		"test_input_required_result_list_roots":      requires("", wantsRoots),
		"test_input_required_result_request_state":   requires("state-ok", wantsConsent),
		"test_input_required_result_tampered_state":  requires("untouched", wantsConsent),
		"test_input_required_result_multiple_inputs": requires("three", askName, wantsModel, wantsRoots),
		"test_input_required_result_capabilities":    requiresWhatTheClientCan,
	}
}

func says(content ...mcp.Content) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}
}

func saying(text string) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

func embedded(uri string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "inside"}}
}

func logs(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, line := range []string{"begun", "half", "done"} {
		if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: line}); err != nil {
			return nil, err
		}
	}
	return saying("three lines logged")
}

func samples(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct{ Prompt string }
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	res, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 100,
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: args.Prompt}}}})
	if err != nil {
		return nil, err
	}
	return saying("the model is " + res.Model)
}

func needsSampling(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if can := req.ClientCapabilities(); can != nil && can.Sampling != nil {
		return saying("it can sample")
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{
		RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}}})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this needs sampling", Data: data}
}

// closesStream closes the event stream of its request; the client receives the answer when it
// resumes the stream.
func closesStream(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Extra != nil && req.Extra.CloseSSEStream != nil {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
	}
	return saying("welcome back")
}

// input is a possible input request of a result.
type input struct {
	id      string
	request mcp.InputRequest
	can     func(*mcp.ClientCapabilities) bool // reports whether a client supports it
}

var (
	askName = input{"user_name", &mcp.ElicitParams{Message: "Who is it?", RequestedSchema: json.RawMessage(nameForm)},
		func(c *mcp.ClientCapabilities) bool { return c.Elicitation != nil }}
	wantsConsent = input{"confirm", &mcp.ElicitParams{Message: "Really?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`)}, askName.can}
	wantsModel = input{"capital_question", &mcp.CreateMessageParams{MaxTokens: 50, Messages: []*mcp.SamplingMessage{
		{Role: "user", Content: &mcp.TextContent{Text: "Which city governs France?"}}}}, func(c *mcp.ClientCapabilities) bool { return c.Sampling != nil }}
	wantsRoots = input{"client_roots", &mcp.ListRootsParams{}, func(c *mcp.ClientCapabilities) bool { return c.RootsV2 != nil }}
)

// requires returns a handler that completes when it receives all inputs and its state.
func requires(state string, inputs ...input) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: requests(inputs), RequestState: state}, nil
		}
		if req.Params.RequestState != state {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this state is not ours"}
		}
		for _, in := range inputs {
			if req.Params.InputResponses[in.id] == nil {
				return &mcp.CallToolResult{InputRequests: requests([]input{in}), RequestState: state}, nil
			}
		}
		return saying("complete: " + state)
	}
}

func requests(inputs []input) mcp.InputRequestMap {
	m := mcp.InputRequestMap{}
	for _, in := range inputs {
		m[in.id] = in.request
	}
	return m
}

func requiresWhatTheClientCan(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var possible []input
	for _, in := range []input{askName, wantsModel, wantsRoots} {
		if can := req.ClientCapabilities(); can != nil && in.can(can) {
			possible = append(possible, in)
		}
	}
	return requires("", possible...)(ctx, req)
}

// changesTools changes the list of tools, which notifies subscribers.
func changesTools(server *mcp.Server) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		server.AddTool(&mcp.Tool{Name: "test_new", Description: fixture, InputSchema: json.RawMessage(schema)}, closesStream)
		return saying("there is a new tool")
	}
}

func changesPrompts(server *mcp.Server) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		server.AddPrompt(&mcp.Prompt{Name: "test_new", Description: fixture}, prompts(&mcp.TextContent{Text: "new"}))
		return saying("there is a new prompt")
	}
}

func addResources(server *mcp.Server) {
	text := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id, _, _ := strings.Cut(strings.TrimPrefix(req.Params.URI, "test://template/"), "/")
		return reads(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: "this is " + id})
	}
	server.AddResource(&mcp.Resource{Name: "text", URI: "test://static-text", MIMEType: "text/plain"}, text)
	server.AddResource(&mcp.Resource{Name: "watched", URI: "test://watched-resource", MIMEType: "text/plain"}, text)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "template", URITemplate: "test://template/{id}/data", MIMEType: "text/plain"},
		text)
	server.AddResource(&mcp.Resource{Name: "binary", URI: "test://static-binary", MIMEType: "image/png"},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return reads(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "image/png", Blob: pixel})
		})
}

func reads(contents *mcp.ResourceContents) (*mcp.ReadResourceResult, error) {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

func addPrompts(server *mcp.Server) {
	server.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: fixture}, prompts(&mcp.TextContent{Text: "simple"}))
	server.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: fixture},
		prompts(&mcp.ImageContent{Data: pixel, MIMEType: "image/png"}))
	server.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_arguments", Description: fixture, Arguments: []*mcp.PromptArgument{
		{Name: "arg1", Required: true}, {Name: "arg2", Required: true}}},
		func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text := req.Params.Arguments["arg1"] + " and " + req.Params.Arguments["arg2"]
			return prompts(&mcp.TextContent{Text: text})(ctx, req)
		})
	server.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_embedded_resource", Description: fixture,
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Required: true}}},
		func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return prompts(embedded(req.Params.Arguments["resourceUri"]))(ctx, req)
		})
	server.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: fixture},
		func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if req.Params.InputResponses[askName.id] == nil {
				return &mcp.GetPromptResult{InputRequests: requests([]input{askName})}, nil
			}
			return prompts(&mcp.TextContent{Text: "now it is known"})(ctx, req)
		})
}

func prompts(content mcp.Content) mcp.PromptHandler {
	return func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: content}}}, nil
	}
}

// pixel is an image of one pixel, silence an empty sound.
var (
	pixel, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNQaDgAAAIkAWHj6Uk8AAAAAElFTkSuQmCC")
	silence  = []byte("RIFF\x24\x00\x00\x00WAVEfmt " +
		"\x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00")
)
