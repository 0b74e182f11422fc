//lint:file-ignore SA1019 older clients still log, sample and list roots, and the suites ask for it

package wire

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Fixtures of the conformance suites. Tools that can be implemented as a Tool are; the other fixtures are
// added directly to the SDK's server.

// fixtures returns an HTTP with all fixtures of the suites.
func fixtures(cfg Config, httpConfig HTTPConfig) (*HTTP, error) {
	tasks := &fixtureTasks{all: map[string]*fixtureTask{}}
	cfg.Tools, cfg.Tasks = append(ownTools(), tasks.tools()...), tasks.tasks()
	for name := range rawTools(nil) {
		cfg.Tools = append(cfg.Tools, Tool{Name: name, Schema: json.RawMessage(schema), Handle: echo})
	}
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	h := s.http(httpConfig, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{
			Tools:       &mcp.ToolCapabilities{ListChanged: true},
			Prompts:     &mcp.PromptCapabilities{ListChanged: true},
			Resources:   &mcp.ResourceCapabilities{Subscribe: true},
			Completions: &mcp.CompletionCapabilities{},
			Logging:     &mcp.LoggingCapabilities{},
		},
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"paris"}, Total: 1}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for name, handle := range rawTools(h.server) {
		h.server.AddTool(&mcp.Tool{Name: name, Description: fixture, InputSchema: json.RawMessage(schema)}, handle)
	}
	addResources(h.server)
	addPrompts(h.server)
	return h, nil
}

// ownTools returns the fixtures that are a Tool.
func ownTools() []Tool {
	of := func(name string, handle Handler) Tool {
		return Tool{Name: name, Description: fixture, Schema: json.RawMessage(schema), Handle: handle}
	}
	answer := func(m redact.Message) Handler {
		return func(ctx context.Context, _ Call) (redact.Redacted, error) { return gate.Redact(ctx, m) }
	}
	vocabulary, mirrored := of("json_schema_2020_12_tool", echo), of("test_x_mcp_header", echo)
	vocabulary.Schema, mirrored.Schema = json.RawMessage(everyKeyword), json.RawMessage(mirrorsAnArgument)
	return []Tool{
		of("test_simple_text", answer(redact.Message{Body: "plain text"})),
		of("test_image_content", answer(redact.Message{Body: "an image", Images: []redact.Image{{MIME: "image/png", Data: pixel}}})),
		of("test_error_handling", answer(redact.Message{Body: "it went wrong, as it should", Failed: true})),
		of("test_streaming_elicitation", answer(redact.Message{Body: "nothing to ask"})),
		of("test_tool_with_progress", reportsProgress),
		of("test_elicitation", asks("username", `{"type":"object","properties":{"username":{"type":"string"}},"required":["username"]}`)),
		of("test_elicitation_sep1034_defaults", asks("defaults", everyDefault)),
		of("test_elicitation_sep1330_enums", asks("choices", everyChoice)),
		of("test_input_required_result_elicitation", asks("user_name", nameForm)),
		of("test_input_required_result_multi_round", asksTwice),
		vocabulary, mirrored,
	}
}

func reportsProgress(ctx context.Context, c Call) (redact.Redacted, error) {
	for done := range 3 {
		if c.Progress == nil {
			break
		}
		step, err := gate.Redact(ctx, fmt.Sprintf("step %d", done))
		if err == nil {
			err = c.Progress(ctx, float64(done*50), 100, step)
		}
		if err != nil {
			return redact.Redacted{}, err
		}
	}
	return gate.Redact(ctx, "all steps done")
}

// asks returns a handler that answers with the person's reply, in both protocol versions.
func asks(id, form string) Handler {
	return func(ctx context.Context, c Call) (redact.Redacted, error) {
		text, _ := gate.Redact(ctx, "Please tell: "+id)
		questions := []Question{{ID: id, Text: text, Schema: json.RawMessage(form)}}
		replies := c.Replies
		switch {
		case c.Ask != nil:
			var err error
			if replies, err = c.Ask(ctx, questions); err != nil {
				return redact.Redacted{}, err
			}
		case c.Require != nil && replies[id].Action != "accept":
			return redact.Redacted{}, c.Require(questions, "")
		}
		return gate.Redact(ctx, fmt.Sprintf("%s: %s", replies[id].Action, replies[id].Content))
	}
}

// asksTwice asks a second question after the first reply.
func asksTwice(ctx context.Context, c Call) (redact.Redacted, error) {
	next := map[string]string{"": "name", "after name": "colour"}[c.State]
	if c.Require == nil || next == "" {
		return gate.Redact(ctx, fmt.Sprintf("both replies: %s", c.Replies["colour"].Content))
	}
	text, _ := gate.Redact(ctx, "Please tell: "+next)
	form := fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}}}`, next)
	return redact.Redacted{}, c.Require([]Question{{ID: next, Text: text, Schema: json.RawMessage(form)}}, "after "+next)
}

const (
	fixture           = "for the conformance suites"
	nameForm          = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	mirrorsAnArgument = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`
	everyKeyword      = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
		"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
			"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
		"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
		"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
		"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`
	everyDefault = `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
		"score":{"type":"number","default":95.5},"verified":{"type":"boolean","default":true},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"}}}`
	everyChoice = `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2"],"enumNames":["One","Two"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"}]}}}}`
)
