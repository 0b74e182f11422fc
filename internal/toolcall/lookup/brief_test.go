package lookup_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// servers reads the servers of package codegen, which have unusual names, texts and schemas.
func servers(t *testing.T) (all map[string][]tool.Definition) {
	t.Helper()
	data, err := os.ReadFile("../../tool/codegen/testdata/servers.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name  string
		Tools []struct {
			Name, Description         string
			InputSchema, OutputSchema json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	all = map[string][]tool.Definition{}
	for _, s := range list {
		for _, d := range s.Tools {
			if d.InputSchema == nil {
				d.InputSchema = json.RawMessage("true")
			}
			all[s.Name] = append(all[s.Name], tool.Definition{Ref: tool.Ref{Server: s.Name, Tool: d.Name}, Description: d.Description,
				Input: d.InputSchema, Output: d.OutputSchema})
		}
	}
	return all
}

// openFinder returns a Finder of the tools of all, in as many copies of the servers.
func openFinder(t *testing.T, all map[string][]tool.Definition, copies int) *lookup.Finder {
	t.Helper()
	var cfg catalog.Config
	cfg.Dir = t.TempDir()
	listings := map[string][]tool.Definition{}
	for name, tools := range all {
		for i := range copies {
			name := name + strings.Repeat(" and another one of many", i)
			cfg.Servers = append(cfg.Servers, catalog.Configured{Name: name})
			listings[name] = tools
		}
	}
	c, err := catalog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, tools := range listings {
		if _, err := c.Put(t.Context(), name, catalog.Listing{Tools: tools}); err != nil {
			t.Fatal(err)
		}
	}
	return lookup.New(lookup.Config{Catalog: c})
}

func encode(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func TestBriefIsWithinItsTokens(t *testing.T) {
	t.Parallel()
	all := servers(t)
	queries := []string{"", "a", "create an issue", "the and of a file", strings.Repeat("list all issues of the project ", 60),
		strings.Repeat("履歴の検索 list ", 90)}
	for _, tools := range all {
		for _, d := range tools {
			queries = append(queries, d.Tool, d.Description[:min(len(d.Description), 2000)])
		}
	}
	for _, copies := range []int{1, 4} {
		f, full := openFinder(t, all, copies), 0
		for _, q := range queries {
			for _, limit := range []int{0, 1, 5, 100} {
				b, err := f.Brief(t.Context(), lookup.Query{Text: q, Limit: limit})
				if err != nil {
					t.Fatal(err)
				}
				text, lines := encode(t, b), 0
				for _, g := range b.Servers {
					lines += len(g.Lines)
				}
				if n := tokens.Count(text); n > lookup.MaxBrief || (b.Count > 0) != (lines > 0) || limit > 0 && lines > limit {
					t.Errorf("%.40q, at most %d: %d tokens, %d lines of %d\n%s", q, limit, n, lines, b.Count, text)
				} else if n > lookup.MaxBrief*3/4 {
					full++
				}
			}
		}
		if full == 0 { // the limit was never close
			t.Errorf("%d copies: no answer has more than three quarters of %d tokens", copies, lookup.MaxBrief)
		}
	}
}

func TestBriefDescribesTheFirstEight(t *testing.T) {
	t.Parallel()
	tools := map[string][]tool.Definition{}
	add := func(server, name, about, schema string) {
		tools[server] = append(tools[server], tool.Definition{Ref: tool.Ref{Server: server, Tool: name}, Description: about,
			Input: json.RawMessage(schema)})
	}
	add("git-hub", "create-issue", "Create an issue in a repository.",
		`{"type":"object","properties":{"repo":{"type":"string"},"title":{"type":"string"},"state":{"enum":["open","closed"],"default":"open"},"page":{"type":"integer","default":1},"labels":{"type":"array","items":{"type":"string"}}},"required":["repo","title"]}`)
	add("tracker", "new", "Create an issue \"here\" in a project, with a very long text about all the things that it can do.",
		`{"type":"object","properties":{"kind":{"enum":["bug","task"]},"more":{"type":"string"}},"required":["kind"]}`)
	for _, name := range strings.Fields("create_issue_a create_issue_b create_issue_c create_issue_d create_issue_e") {
		add("copies", name, "", `{"type":"object","properties":{"a":{"type":"object","properties":{"number":{"type":"integer"},"title_of_it":{"type":"string"}}}},"required":["a"]}`)
	}
	b, err := openFinder(t, tools, 1).Brief(t.Context(), lookup.Query{Text: "create an issue"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"query":"create an issue","count":7,"servers":{` +
		`"tracker":["new(kind: 'bug'|'task', more: str=None) # Create an issue 'here' in a project, with a very long"],` +
		`"git_hub":["create_issue(repo: str, title: str, state: 'open'|'closed'='open', page=1, labels: list[str]=None) # Create an ` +
		`issue in a repository"],` +
		`"copies":["create_issue_a(a: {number?, title_of_it?})","create_issue_d(a: {number?, title_of_it?})","create_issue_b(a: ` +
		`{number?, title_of_it?})","create_issue_c(a: {number?, title_of_it?})","create_issue_e(a: {number?, title_of_it?})"]}}`
	if d := cmp.Diff(want, encode(t, b)); d != "" {
		t.Error(d)
	}
}

// If no tool of a small catalog matches, their names are the answer.
func TestBriefListsAllOfFewTools(t *testing.T) {
	few := map[string][]tool.Definition{"calendar": nil, "tickets": nil}
	for _, name := range []string{"add_event", "list_events"} {
		few["calendar"] = append(few["calendar"], tool.Definition{Ref: tool.Ref{Server: "calendar", Tool: name},
			Input: json.RawMessage("true")})
	}
	few["tickets"] = []tool.Definition{{Ref: tool.Ref{Server: "tickets", Tool: "create"}, Input: json.RawMessage("true")}}
	f := openFinder(t, few, 1)
	got, err := f.Brief(t.Context(), lookup.Query{Text: "zebra"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"query":"zebra","count":0,"servers":{"calendar":["add_event","list_events"],"tickets":["create"]},"hint":"no tool has ` +
		`words of the query: these are all tools"}`
	if text := strings.TrimSpace(encode(t, got)); text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	if got, err = openFinder(t, few, 10).Brief(t.Context(), lookup.Query{Text: "zebra"}); err != nil || len(got.Servers) > 0 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestBriefSaysHowToConnect(t *testing.T) {
	t.Parallel()
	c, err := catalog.Open(catalog.Config{Dir: t.TempDir(), Static: []catalog.Static{
		{Categories: map[string]catalog.StaticCategory{"security": {Tools: map[string]catalog.StaticTool{"scan": {Server: "shodan",
			Description: "Scan a network."}}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := lookup.New(lookup.Config{Catalog: c}).Brief(t.Context(), lookup.Query{Text: "network"})
	if d := cmp.Diff(`{"query":"network","count":1,"servers":{"shodan":["scan # Scan a network"]},"hint":"not connected: add shodan to `+
		`servers: in sandpiper.yaml"}`, encode(t, b)); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

func TestSeveralDefinitionsInOneRequest(t *testing.T) {
	t.Parallel()
	f, _ := finder(t)
	all, err := f.DefineNames(t.Context(), nil, lookup.Names{Names: json.RawMessage(`["git_hub.list_issues","lst_issues"]`)})
	if err != nil {
		t.Fatal(err)
	}
	one, err := f.DefineNames(t.Context(), nil, lookup.Names{Names: json.RawMessage(`"list_issues"`)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"tools":[` + encode(t, one) + `,{"name":"lst_issues","error":"there is no tool \"lst_issues\"; did you mean ` +
		`git-hub.list-issues?"}]}`
	if d := cmp.Diff(want, encode(t, all)); d != "" {
		t.Error(d)
	}
	for _, names := range []string{`[]`, `[1]`, `{}`, `["a"` + strings.Repeat(`,"a"`, 20) + `]`} {
		if _, err := f.DefineNames(t.Context(), nil, lookup.Names{Names: json.RawMessage(names)}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.20s: %v", names, err)
		}
	}
}

// A definition says what the stub of a search does not, in a third of the tokens of the complete one.
func TestCompactDefinitionRepeatsNothing(t *testing.T) {
	t.Parallel()
	tools := map[string][]tool.Definition{"git-hub": {
		{Ref: tool.Ref{Server: "git-hub", Tool: "list"}, Description: "List issues. " + strings.Repeat("And so on. ", 30),
			Input: json.RawMessage(`{"type":"object","properties":{"state":{"enum":["open","closed"],"description":"The ` +
				`state"},"page-size":{"type":"integer","minimum":1,"maximum":100,"description":"Issues on a page"}},"required":["state"]}`),
			Output: json.RawMessage(`{"type":"object","properties":{"total":{"type":"integer","description":"All"}},"required":["total"]}`)},
		{Ref: tool.Ref{Server: "git-hub", Tool: "nested"}, Input: json.RawMessage(`{"type":"object","properties":{"of":{"type":"object","properties":{"a":{"type":"string","description":"A"}}}}}`)},
	}}
	f := openFinder(t, tools, 1)
	for name, want := range map[string]string{
		"list": `{"signature":"servers.git_hub.list(state: 'open'|'closed', page_size: int=None) -> {total: int}","description":"List ` +
			`issues. And so on. And so on. And so on. And so on. And so on. And so on …",` +
			`"arguments":["page_size: Sent as 'page-size'. Issues on a page …"]}`,
		"nested": `{"signature":"servers.git_hub.nested(of: {a?: str}=None)"}`,
	} {
		q := lookup.Names{Names: json.RawMessage(`"` + name + `"`)}
		d, err := f.DefineNames(t.Context(), nil, q)
		if diff := cmp.Diff(want, encode(t, d)); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		q.Schemas = true
		full, err := f.DefineNames(t.Context(), nil, q)
		if text := encode(t, full); err != nil || !strings.Contains(text, `"input_schema":{"type":"object"`) || !strings.Contains(text,
			`"example":`) || !strings.Contains(text, `"import":`) {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
