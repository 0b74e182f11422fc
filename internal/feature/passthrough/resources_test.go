package passthrough

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

func TestTemplateMatch(t *testing.T) {
	for _, c := range []struct {
		template, uri string
		want          bool
	}{
		{"demo://text/{id}", "demo://text/7", true},
		{"demo://text/{id}", "demo://text/7/more", false},
		{"demo://text/{id}", "demo://blob/7", false},
		{"file:///{+path}", "file:///a/b.txt", true},
		{"db://{schema}/{table}{?limit,offset}", "db://main/users?limit=5", true},
		{"db://{schema}/{table}{?limit,offset}", "db://main/users", true},
		{"x.y://{id}", "xzy://1", false},
		{"plain://x", "plain://x", true},
		{"bad://{", "bad://{", true},
		{"bad://{", "bad://x", false},
		{"a://{x}", "a://line\nbreak", true},
		{strings.Repeat("{+x}", 251), "a", false},
		{"{+x}", strings.Repeat("a", 4001), false},
		{strings.Repeat("{+x*}", 199) + "!", strings.Repeat("a", 4000), false},
	} {
		if got := fits(c.template, c.uri); got != c.want {
			t.Errorf("%.60s and %.60s: %t", c.template, c.uri, got)
		}
	}
}

func TestAddressRoundTrip(t *testing.T) {
	for _, server := range []string{"docs", "a/b", "größe 1", "%2F", ""} {
		for _, uri := range []string{"doc://x", "", "upstream://docs/x", "a b/%zz"} {
			if s, u, ok := cutAddress(address(server, uri)); !ok || s != server || u != uri {
				t.Errorf("%q %q became %q %q %t", server, uri, s, u, ok)
			}
		}
	}
	for _, none := range []string{"doc://x", "upstream:/x", "upstream://docs", "upstream://%zz/x"} {
		if s, u, ok := cutAddress(none); ok {
			t.Errorf("%s is %q %q", none, s, u)
		}
	}
}

func TestConflictingURIsIncludeServer(t *testing.T) {
	stock := map[string][]upstream.Resource{
		"a": {{URI: "x:1", Name: "one"}, {URI: "x:2"}, {URI: "x:2"}, {URI: "t:{id}", Template: true}},
		"b": {{URI: "x:1"}, {URI: "upstream://a/x:2"}, {URI: "t:{id}", Template: true}},
	}
	var got []string
	for _, l := range append(resourceLines(stock, false), resourceLines(stock, true)...) {
		got = append(got, string(l.json))
	}
	want := []string{
		`{"uri":"upstream://a/x:1","name":"one"}`, `{"uri":"x:2","name":""}`,
		`{"uri":"upstream://b/upstream://a/x:2","name":""}`, `{"uri":"upstream://b/x:1","name":""}`,
		`{"uriTemplate":"upstream://a/t:{id}","name":""}`, `{"uriTemplate":"upstream://b/t:{id}","name":""}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Answers of servers that do not use MCP have no protocol form yet.
func TestPartEncoding(t *testing.T) {
	for _, c := range []struct {
		part tool.Part
		want string
	}{
		{tool.Part{Kind: tool.Text}, `{"type":"text","text":""}`},
		{tool.Part{Kind: tool.Image, Data: []byte{0, 1}, MIME: "image/png"}, `{"type":"image","data":"AAE=","mimeType":"image/png"}`},
		{tool.Part{Kind: tool.Audio, Data: []byte{0}, MIME: "audio/wav"}, `{"type":"audio","data":"AA==","mimeType":"audio/wav"}`},
		{tool.Part{Kind: tool.Link, URI: "x:1", Name: "n", Text: "about"},
			`{"type":"resource_link","uri":"x:1","name":"n","description":"about"}`},
		{tool.Part{Kind: tool.Text, URI: "x:1", Text: "t"}, `{"type":"resource","resource":{"uri":"x:1","text":"t"}}`},
		{tool.Part{Kind: tool.Blob, URI: "x:1", MIME: "a/b"}, `{"type":"resource","resource":{"uri":"x:1","mimeType":"a/b","blob":""}}`},
	} {
		if c.part.Data == nil && c.part.Kind == tool.Blob {
			c.part.Data = []byte{}
		}
		if d := cmp.Diff(c.want, string(content(c.part))); d != "" {
			t.Error(d)
		}
	}
}
