package mcpserver_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// TestChangedTextIsReported reads text that a client would load: the answer says that it was changed.
func TestChangedTextIsReported(t *testing.T) {
	const page = "<style>p {}</style> <b>x</b> ![a](https://example.com/a.png) \x1b[1m"
	rules, err := redact.New(redact.Config{Mode: redact.Off, Filter: guardrail.NewFilter(true, true)})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
		execution.Config{Backend: fake.New(fake.Config{}), Privacy: rules}))
	answer := func(tool string, args map[string]any) string {
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": tool, "arguments": args}})
		if err != nil {
			t.Fatal(err)
		}
		p.send(string(text))
		return p.receive().Result.Content[0].Text
	}
	answer("write_workspace_file", map[string]any{"filename": "page.html", "content": page})
	answer("write_workspace_file", map[string]any{"filename": "plain.html", "content": "<b>x</b> ![a](a.png)"})
	code, _ := json.Marshal(page)
	for _, c := range []struct {
		tool string
		args map[string]any
		want int
	}{
		{"read_workspace_file", map[string]any{"filename": "page.html"}, 3},
		{"read_workspace_file", map[string]any{"filename": "page.html", "limit": 30}, 1},
		{"read_workspace_file", map[string]any{"filename": "plain.html"}, 0},
		{"execute_code", map[string]any{"code": "result " + string(code)}, 3},
		{"execute_code", map[string]any{"code": "print " + page}, 3},
		{"execute_code", map[string]any{"code": `result {"as_it_is":1}`}, 0},
		{"execute_code", map[string]any{"code": `result {"as_it_is":"<svg>"}`}, 1},
		{"execute_code", map[string]any{"code": "result \"a\u202eb\""}, 1},
	} {
		text := answer(c.tool, c.args)
		var got struct {
			Neutralized int
			AsItIs      string `json:"as_it_is"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Neutralized != c.want ||
			(c.want > 0) != strings.Contains(got.AsItIs, "Code works on the original") {
			t.Errorf("%s %v, want %d: %s %v", c.tool, c.args, c.want, text, err)
		}
	}
}

// TestChangedTextOfTheProtocolIsReported reads text that a client would load in results that have the form
// of the protocol: they keep it, and say in _meta that text was changed; the answer of a tool also in
// words.
func TestChangedTextOfTheProtocolIsReported(t *testing.T) {
	rules, err := redact.New(redact.Config{Mode: redact.Off, Filter: guardrail.NewFilter(true, true)})
	if err != nil {
		t.Fatal(err)
	}
	own := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
		execution.Config{Backend: fake.New(fake.Config{}), Privacy: rules}))
	own.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_workspace_file","arguments":{"filename":"page.html","content":"<svg> <style>"}}}`)
	own.receive()
	passed := newPassthrough(t, map[string][]byte{"web": []byte(`{
 "tools": [{"name": "page", "inputSchema": {"type": "object"}}, {"name": "plain", "inputSchema": {"type": "object"}}],
 "resources": [{"uri": "web://a", "name": "a", "description": "<svg>"}], "prompts": [{"name": "p"}],
 "answers": {
  "call page": {"content": [{"type": "text", "text": "<svg>"}], "structuredContent": {"a": "<svg>"}, "_meta": {"mine": 1}},
  "call plain": {"content": [{"type": "text", "text": "<b>"}]},
  "read web://a": {"contents": [{"uri": "web://a", "text": "<svg>"}]},
  "get p": {"messages": [{"role": "user", "content": {"type": "text", "text": "<svg>"}}]}}}`)})
	relay := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"),
		mcpserver.Config{Profile: passed.Profile, Relay: passed, Privacy: rules},
		execution.Config{Backend: fake.New(fake.Config{}), Privacy: rules}))
	for _, c := range []struct {
		p               *peer
		method, params  string
		want, unchanged []string
	}{
		{own, "resources/read", `{"uri":"workspace://page.html"}`,
			[]string{`"contents":[{"_meta":{"as_it_is":"images, tags or`, `"neutralized":2}`, `\u003c svg\u003e \u003c style\u003e`}, nil},
		{relay, "tools/call", `{"name":"page"}`, []string{`"neutralized":2`, `"mine":1`, `(Sandpiper: neutralized: 2; images, tags`,
			`"structuredContent":{"a":"\u003c svg\u003e"}`}, nil},
		{relay, "tools/call", `{"name":"plain"}`, nil, []string{"neutralized"}},
		{relay, "resources/read", `{"uri":"web://a"}`, []string{`"_meta":{"as_it_is":"images, tags`, `"neutralized":1`},
			[]string{`"as_it_is":"images, tags or control characters in this text were changed, so that nothing loads: writing it back ` +
				`would change the original. Code`}},
		{relay, "prompts/get", `{"name":"p"}`, []string{`"_meta":{"as_it_is":"images, tags`, `"neutralized":1`}, nil},
		{relay, "resources/list", `{}`, []string{`\u003c svg\u003e`}, []string{"neutralized"}},
	} {
		c.p.send(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":` + c.params + `}`)
		c.p.receive()
		got := c.p.lines.Text()
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s %s lacks %s:\n%s", c.method, c.params, want, got)
			}
		}
		for _, other := range c.unchanged {
			if strings.Contains(got, other) {
				t.Errorf("%s %s has %s:\n%s", c.method, c.params, other, got)
			}
		}
	}
}

// TestShownTextIsNotWrittenBack writes files and skills back as they were shown: that is refused, since it
// would change what nobody meant to change.
func TestShownTextIsNotWrittenBack(t *testing.T) {
	rules, err := redact.New(redact.Config{Mode: redact.Off, Filter: guardrail.NewFilter(true, true)})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
		execution.Config{Backend: compiling{fake.New(fake.Config{})}, Privacy: rules}))
	answer := func(tool string, args map[string]any, to any) string {
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
		if err != nil {
			t.Fatal(err)
		}
		p.send(string(text))
		got := p.receive().Result.Content[0].Text
		if to != nil {
			if err := json.Unmarshal([]byte(got), to); err != nil {
				t.Fatalf("%s: %v", got, err)
			}
		}
		return got
	}
	const page = "<h1>Report</h1>\r\n<img src=https://example.com/a.png>\n![a](https://example.com/b.png)\n\x1b[1mend"
	write := func(content string) string {
		return answer("write_workspace_file", map[string]any{"filename": "page.html", "content": content}, nil)
	}
	write(page)
	var read struct{ Content string }
	answer("read_workspace_file", map[string]any{"filename": "page.html"}, &read)
	for content, want := range map[string]string{
		strings.Replace(read.Content, "Report", "Final report", 1): "nothing was written: line 2 of page.html would become",
		"new\n! [a](https://example.com/b.png)":                    "nothing was written: line 3 of page.html",
		"<h1>Other</h1>":                                           "Written",
	} {
		if got := write(content); !strings.Contains(got, want) {
			t.Errorf("%q: %s", content, got)
		}
		write(page)
	}
	if got := write(strings.Replace(page, "Report", "Final report", 1)); !strings.Contains(got, "Written") {
		t.Errorf("the original: %s", got)
	}
	save := func(code string) string {
		return answer("save_skill", map[string]any{"name": "icon", "code": code}, nil)
	}
	save("def icon():\n    return '<svg>'\n")
	var loaded struct{ Code string }
	answer("load_skill", map[string]any{"name": "icon"}, &loaded)
	if got := save(strings.Replace(loaded.Code, "icon()", "icon(x=1)", 1)); !strings.Contains(got,
		"nothing was written: line 2 of the code of skill icon") {
		t.Error(got)
	}
}
