package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// proseKeys are the keys of a corpus whose values are detected in any text.
const proseKeys = "email phone ssn ip api_key iban mac wallet url session card"

// scriptWith returns a server with private values in its descriptions, resources, prompts
// and stderr.
func scriptWith(c corpus) upstreamtest.Script {
	told := "Ask for this: " + strings.ReplaceAll(c.lines(), "\n", ", ") + "."
	schema := map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{
		"type": "string", "description": told, "default": c["email"], "enum": []any{c["email"], c["iban"]}, "examples": []any{c["phone"]}}}}
	content := func(more map[string]any) json.RawMessage {
		text := map[string]any{"type": "text", "text": told, "_meta": map[string]any{"note": told},
			"annotations": map[string]any{"audience": []any{"user"}}}
		more["content"] = []any{text, map[string]any{"type": "image", "mimeType": "image/png", "data": onePixel},
			map[string]any{"type": "resource", "resource": map[string]any{"uri": fmt.Sprint("note://", c["email"]),
				"mimeType": "text/plain", "text": told}},
			map[string]any{"type": "resource_link", "uri": "note://one", "name": told, "description": told}}
		return asJSON(more)
	}
	return upstreamtest.Script{
		Tools: append(peopleTools(), asJSON(map[string]any{"name": "lookup", "title": told, "description": told, "inputSchema": schema,
			"outputSchema": map[string]any{"type": "object", "description": told,
				"properties": map[string]any{fmt.Sprint(c["email"]): schema}}}),
			json.RawMessage(`{"name":"die","inputSchema":{"type":"object"}}`)),
		Resources: []json.RawMessage{asJSON(map[string]any{"uri": fmt.Sprintf("note://%s/one", c["email"]), "name": told, "title": told,
			"description": told}),
			json.RawMessage(`{"uri":"note://text","name":"text"}`), json.RawMessage(`{"uri":"note://blob","name":"blob"}`)},
		Templates: []json.RawMessage{asJSON(map[string]any{"uriTemplate": "note://{id}", "name": told, "description": told})},
		Prompts: []json.RawMessage{asJSON(map[string]any{"name": "greet", "title": told, "description": told,
			"arguments": []any{map[string]any{"name": "who", "description": told}}})},
		Answers: map[string]json.RawMessage{
			"call lookup":  content(map[string]any{"structuredContent": c, "_meta": map[string]any{"note": told}}),
			"call records": asJSON(map[string]any{"content": []any{map[string]any{"type": "text", "text": c.json()}}}),
			"call fail":    content(map[string]any{"isError": true}),
			"read note://text": asJSON(map[string]any{"contents": []any{map[string]any{"uri": "note://text", "mimeType": "text/plain",
				"text": told}}}),
			"read note://blob": asJSON(map[string]any{"contents": []any{map[string]any{"uri": "note://blob",
				"blob": base64.StdEncoding.EncodeToString([]byte(told))}}}),
			"get greet": asJSON(map[string]any{"description": told,
				"messages": []any{map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": told}}}}),
			"complete": asJSON(map[string]any{"completion": map[string]any{"values": strings.Split(c.lines(), "\n")}}),
		},
		Questions: []json.RawMessage{asJSON(map[string]any{"message": told,
			"requestedSchema": map[string]any{"type": "object", "properties": map[string]any{
				"a": map[string]any{"type": "string", "title": told, "description": told, "default": c["email"]},
				"b": map[string]any{"type": "string", "enum": []any{c["iban"], c["card"]}}}}})},
		ExitMessage: told,
	}
}

// asked is a request about a server.
type asked struct {
	name   string
	method string // tools/call if empty
	params string
}

func toolCall(name, args string) string { return fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args) }

// codeModeQuestions are requests about servers to the tools of code mode.
var codeModeQuestions = []asked{
	{name: "search", params: toolCall("search_tools", `{"query":"lookup","detail_level":"full"}`)},
	{name: "search in code", params: toolCall("execute_code", `{"code":"result = search_tools('lookup', detail_level='full')"}`)},
	{name: "definition", params: toolCall("get_tool_definition", `{"tool_name":"people.lookup"}`)},
	{name: "definition in code", params: toolCall("execute_code",
		`{"code":"print(get_tool_definition('people.lookup')); from servers import people; help(people.lookup)"}`)},
	{name: "tools of a server", params: toolCall("get_server_tools", `{"server_name":"people"}`)},
	{name: "module", params: toolCall("read_workspace_file", `{"filename":"servers/people/lookup.py"}`)},
	{name: "module in code", params: toolCall("execute_code", `{"code":"print(open('/workspace/servers/people/lookup.py').read())"}`)},
	{name: "resources", params: toolCall("execute_code", `{"code":"from servers.people import resources, `+
		`prompts\nprint(resources.list())\nprint(prompts.list())\nresult = [resources.read('note://text'), prompts.get('greet')]"}`)},
	{name: "check before running", params: toolCall("execute_code",
		`{"code":"from servers.people import lookup\nlookup(id='no', other=1)"}`)},
	{name: "last words in an answer", params: toolCall("execute_code", `{"code":"from servers.people import die\ndie()"}`)},
	{name: "last words in the list of servers", params: toolCall("list_servers", `{}`)},
}

// passthroughQuestions are requests to a server through the profile passthrough.
var passthroughQuestions = []asked{
	{name: "list of tools", method: "tools/list", params: `{}`},
	{name: "answer", params: toolCall("lookup", `{}`)},
	{name: "text that is JSON", params: toolCall("records", `{}`)},
	{name: "failure", params: toolCall("fail", `{}`)},
	{name: "question", params: toolCall("ask", `{}`)},
	{name: "list of resources", method: "resources/list", params: `{}`},
	{name: "list of templates", method: "resources/templates/list", params: `{}`},
	{name: "resource", method: "resources/read", params: `{"uri":"note://text"}`},
	{name: "resource that is no text", method: "resources/read", params: `{"uri":"note://blob"}`},
	{name: "list of prompts", method: "prompts/list", params: `{}`},
	{name: "prompt", method: "prompts/get", params: `{"name":"greet","arguments":{"who":"x"}}`},
	{name: "completion", method: "completion/complete", params: `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"a"}}`},
	{name: "last words", params: toolCall("die", `{}`)},
}

// TestServerMetadataIsRedacted is TestPrivateValuesDoNotReachClient for descriptions and
// other metadata of servers, and for clients without code mode.
func TestServerMetadataIsRedacted(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, c := range []struct {
		mode, version, profile string
		all                    []asked
	}{
		{"off", "2025-11-25", "full", codeModeQuestions}, {"egress", "2025-11-25", "full", codeModeQuestions}, {"strict", "2026-07-28",
			"full", codeModeQuestions},
		{"off", "2025-11-25", "passthrough", passthroughQuestions}, {"egress", "2025-11-25", "passthrough", passthroughQuestions},
		{"egress", "2026-07-28", "passthrough", passthroughQuestions},
	} {
		t.Run(c.mode+" "+c.version+" "+c.profile, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "script")
			values := newCorpus(t, 900).only(proseKeys)
			upstreamtest.Write(t, script, scriptWith(values))
			w := newRecordingClient(t, peopleConfig(t, script)+privacyConfig(c.mode), c.version, "--profile", c.profile)
			if c.profile != "passthrough" {
				w.awaitModule("servers/people/lookup.py")
			}
			for _, a := range c.all {
				t.Run(a.name, func(t *testing.T) {
					w.t = t
					told := func() []string {
						w.asks(a)
						found := leaks(w.newOutput(), values.secrets())
						// a summary is truncated at 120 characters
						return slices.DeleteFunc(found, func(f string) bool { return strings.HasSuffix(f, "as beginning") })
					}
					found := told()
					for tries := 0; c.mode == "off" && len(found) == 0 && tries < 50; tries++ { // stderr arrives slightly later
						time.Sleep(100 * time.Millisecond)
						found = told()
					}
					if c.mode == "off" && len(found) == 0 {
						t.Errorf("the client received nothing: %s", w.out.Text())
					} else if c.mode != "off" && len(found) > 0 {
						t.Errorf("the client received %q", found)
					}
				})
			}
		})
	}
}

// awaitModule waits for the module of a tool, which is written after all other data of a
// server.
func (w *recordingClient) awaitModule(module string) {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); strings.Contains(w.call("read_workspace_file", map[string]any{"filename": module}),
		`"success":false`); {
		if time.Now().After(until) {
			w.t.Fatalf("there is no %s", module)
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.newOutput()
}

func (w *recordingClient) asks(a asked) {
	w.t.Helper()
	var params map[string]any
	if err := json.Unmarshal([]byte(a.params), &params); err != nil {
		w.t.Fatal(err)
	}
	method := a.method
	if method == "" {
		method = "tools/call"
	}
	w.request(method, params)
}
