package preflight_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/preflight"
)

func snapshot(t *testing.T) *catalog.Snapshot {
	t.Helper()
	c, err := catalog.Open(catalog.Config{
		Dir:      t.TempDir(),
		Disabled: []string{"git-lab"},
		Servers:  []catalog.Configured{{Name: "git-hub", Identity: "a"}, {Name: "silent", Identity: "b"}},
		Static:   []catalog.Static{{Categories: map[string]catalog.StaticCategory{"mail": {Tools: map[string]catalog.StaticTool{"send": {Server: "post"}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	put := func(issues string) {
		t.Helper()
		_, err := c.Put(t.Context(), "git-hub", catalog.Listing{Tools: []tool.Definition{
			{Ref: tool.Ref{Server: "git-hub", Tool: "list-issues"}, Input: json.RawMessage(`{"type":"object","required":["owner"],"properties":{
				"page":{"type":"integer"},"owner":{"type":"string"},"state":{"enum":["open","closed"]},"from":{"type":"string"}}}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "anything"},
				Input: json.RawMessage(`{"type":"object","additionalProperties":{"type":"integer"}}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "nothing"}, Input: json.RawMessage(`{"type":"object","properties":{}}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "bare"}, Input: json.RawMessage(`{"type":"object"}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "either"}, Input: json.RawMessage(`{"type":"object","anyOf":[
				{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"from":{"type":"integer"}},"required":["from"]}]}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "one"}, Input: json.RawMessage(`{"oneOf":[{"$ref":"#/$defs/x"},
				{"type":"object","properties":{"kind":{"const":"y"},"n":{"type":"integer"}},"required":["kind","n"],"additionalProperties":false}],
				"$defs":{"x":{"type":"object","properties":{"kind":{"const":"x"}},"required":["kind"],"additionalProperties":false}}}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "when"}, Input: json.RawMessage(`{"properties":{"kind":{"type":"string"}},
				"if":{"properties":{"kind":{"const":"x"}}},"then":{"properties":{"b":{"type":"integer"}},"required":["b"]}}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "zod"}, Input: json.RawMessage(`{"type":"object","required":["id","mode"],"properties":{
				"id":{"type":"integer"},"mode":{"enum":["fast","slow"],"default":"fast"},"who":{"type":["string","null"]}}}`)},
			{Ref: tool.Ref{Server: "git-hub", Tool: "changed"}, Description: issues, Input: json.RawMessage(`true`)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	put("after")
	return c.Now()
}

func call(function, rest string) string {
	return `{"calls":[{"server":"git_hub","function":"` + function + `","line":3,` + rest + `}]}`
}

func TestCheckFindsErrors(t *testing.T) {
	now := snapshot(t)
	why := map[string]error{"silent": fault.New(fault.Unavailable, "there is no program %q", "x").WithHint("install it")}
	for uses, want := range map[string]string{
		`{}`: "",
		`{"imports":[{"server":"git_hub","function":"list_issues","line":1},{"server":"git_hub","line":1}]}`:                      "",
		`{"imports":[{"server":"github","function":"x","line":1},{"server":"github","function":"y","line":2}]}`:                   `line 1: there is no server "github"; did you mean git_hub?`,
		`{"imports":[{"server":"git_lab","function":"x","line":1}]}`:                                                              "line 1: server git-lab is disabled by the operator, and cannot be used until it is enabled with `sandpiper servers enable git-lab`",
		`{"imports":[{"server":"zzzzzzzzz","line":1}]}`:                                                                           `line 1: there is no server "zzzzzzzzz"; there are git_hub, silent`,
		`{"imports":[{"server":"git_hub","function":"list_isues","line":1}]}`:                                                     `line 1: server git-hub has no tool "list_isues"; did you mean list_issues?`,
		`{"imports":[{"server":"git_hub","function":"frobnicate","line":1}]}`:                                                     `line 1: server git-hub has no tool "frobnicate"; dir(servers.git_hub) lists them, search_tools finds others`,
		`{"imports":[{"server":"silent","function":"x","line":1}]}`:                                                               `line 1: server silent has not listed its tools: there is no program "x"; install it`,
		`{"imports":[{"server":"silent","line":1}]}`:                                                                              `line 1: server silent has not listed its tools: there is no program "x"; install it`,
		`{"imports":[{"server":"silent","line":1,"ready":true}]}`:                                                                 "",
		`{"imports":[{"server":"post","function":"send","line":1}]}`:                                                              `line 1: server post is known from a catalog only and not connected: the operator can add it to servers: in the configuration`,
		`{"calls":[{"server":"post","function":"missing","line":1,"by_name":true}]}`:                                              `line 1: server post is known from a catalog only and not connected: the operator can add it to servers: in the configuration`,
		`{"imports":[{"server":"post","function":"missing","line":1}],"calls":[{"server":"post","function":"missing","line":2}]}`: `line 1: server post is known from a catalog only and not connected: the operator can add it to servers: in the configuration`,
		`{"imports":[{"server":"post","line":1}]}`:                                                                                `line 1: server post is known from a catalog only and not connected: the operator can add it to servers: in the configuration`,
		`{"imports":[{"server":"post","line":1,"ready":true}]}`:                                                                   "",
		`{"imports":[{"server":"git_hub","function":"changed","line":1}]}`:                                                        "line 1: git-hub.changed is quarantined because its definition has changed; the operator can accept it with `sandpiper tools accept git-hub changed`",
		call("list_issues", `"args":[{"value":"me"}],"keywords":{"page":{"value":2},"state":{}}`):                                 "",
		call("list_issues", `"args":[],"keywords":{}`):                                                                            "line 3: git_hub.list_issues: argument owner: is missing",
		call("list_issues", `"args":[],"keywords":{},"open":true`):                                                                "",
		call("list_issues", `"args":[{"value":5},{"value":"x"}]`):                                                                 "line 3: git_hub.list_issues: argument owner: expected a string, got a number\nline 3: git_hub.list_issues: argument page: expected an integer, got a string",
		call("list_issues", `"args":[{},{},{},{},{}]`):                                                                            "line 3: git_hub.list_issues takes 4 arguments, but 5 are passed",
		call("list_issues", `"keywords":{"owner":{"value":"me"},"state":{"value":"opened"},"page":{"value":null}}`):               `line 3: git_hub.list_issues: argument state: expected one of "open", "closed"`,
		call("list_issues", `"keywords":{"onwer":{"value":"me"}}`):                                                                "line 3: git_hub.list_issues has no argument \"onwer\"; did you mean owner?",
		call("list_issues", `"keywords":{"owner":{"value":"me"},"from_":{"value":5}}`):                                            "line 3: git_hub.list_issues: argument from_ (from): expected a string, got a number",
		call("nothing", `"keywords":{"a":{"value":5}}`):                                                                           "line 3: git_hub.nothing has no argument \"a\": it takes none",
		call("bare", `"keywords":{"a":{"value":5}}`):                                                                              "",
		call("bare", `"args":[{"value":5}]`):                                                                                      "line 3: git_hub.bare takes 0 arguments, but 1 are passed",
		call("either", `"keywords":{"a":{"value":"x"}}`):                                                                          "",
		call("either", `"args":[{"value":"x"}]`):                                                                                  "",
		call("either", `"keywords":{"from_":{"value":3}}`):                                                                        "",
		call("either", `"keywords":{"from_":{}}`):                                                                                 "",
		call("either", `"keywords":{"from_":{"value":"x"}}`):                                                                      "line 3: git_hub.either: fits none of 2 alternatives: 1 needs a; 2 from must be an integer",
		call("either", `"keywords":{"b":{"value":1}}`):                                                                            "line 3: git_hub.either has no argument \"b\"; there are a, from_",
		call("either", `"by_name":true,"keywords":{"from":{"value":3}}`):                                                          "",
		call("either", `"by_name":true,"keywords":{"from":{"value":"x"}}`):                                                        "line 3: git_hub.either: fits none of 2 alternatives: 1 needs a; 2 from must be an integer",
		call("one", `"keywords":{"kind":{"value":"x"}}`):                                                                          "",
		call("one", `"keywords":{"kind":{"value":"y"},"n":{"value":2}}`):                                                          "",
		call("one", `"keywords":{"kind":{"value":"x"},"n":{"value":2}}`):                                                          "line 3: git_hub.one: fits none of 2 alternatives: 1 has no n",
		call("when", `"keywords":{"kind":{}}`):                                                                                    "",
		call("when", `"keywords":{"kind":{"value":"y"}}`):                                                                         "",
		call("when", `"keywords":{"kind":{"value":"x"}}`):                                                                         "line 3: git_hub.when: argument b: is missing",
		call("zod", `"keywords":{"id":{"value":1}}`):                                                                              "",
		call("zod", `"keywords":{"id":{"value":1},"who":{"value":null}}`):                                                         "",
		call("zod", `"keywords":{"id":{"value":1},"who":{"value":5}}`):                                                            "line 3: git_hub.zod: argument who: expected None or a string, got a number",
		call("zod", `"keywords":{"id":{"value":1},"mode":{"value":"x"}}`):                                                         `line 3: git_hub.zod: argument mode: expected one of "fast", "slow"`,
		call("zod", `"by_name":true,"keywords":{"id":{"value":1}}`):                                                               "",
		call("anything", `"keywords":{"a":{"value":5},"b":{}}`):                                                                   "",
		call("list-issues", `"by_name":true,"keywords":{"owner":{"value":null}}`):                                                 "line 3: git_hub.list-issues: argument owner: expected a string, got None",
		`{"calls":[{"server":"git_hub","function":"lst_issues","line":3},{"server":"nobody","function":"x","line":2}]}`:           "line 2: there is no server \"nobody\"; there are git_hub, silent\nline 3: server git-hub has no tool \"lst_issues\"; did you mean list_issues?",
	} {
		var u preflight.Uses
		if err := json.Unmarshal([]byte(uses), &u); err != nil {
			t.Fatal(uses, err)
		}
		schemas := func(d tool.Definition) *schema.Schema { return schema.Compile(d.Input) }
		got := strings.Join(preflight.Check(now, why, schemas, u), "\n")
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s\n%s", uses, d)
		}
	}
}

func TestCheckLimitsFindings(t *testing.T) {
	var u preflight.Uses
	for i := range 50 {
		u.Imports = append(u.Imports, preflight.Import{Server: strings.Repeat("z", i+10), Line: i})
	}
	lines := preflight.Check(snapshot(t), map[string]error{"x": errors.New("x")}, nil, u)
	if len(lines) != 21 || lines[20] != "… and 30 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestCheckIgnoresOptionalUses(t *testing.T) {
	now := snapshot(t)
	schemas := func(d tool.Definition) *schema.Schema { return schema.Compile(d.Input) }
	ready := func(server, function string) preflight.Call {
		return preflight.Call{Server: server, Function: function, Optional: true, Line: 2}
	}
	for _, u := range []preflight.Uses{
		{Imports: []preflight.Import{{Server: "nope", Optional: true}, {Server: "git_hub", Function: "nope", Optional: true},
			{Server: "silent", Function: "x", Optional: true}}},
		{Calls: []preflight.Call{ready("nope", "x"), ready("git_hub", "nope"), ready("silent", "x"), ready("post", "send")}},
	} {
		if got := preflight.Check(now, nil, schemas, u); len(got) > 0 {
			t.Errorf("%+v: %q", u, got)
		}
	}
	got := preflight.Check(now, nil, schemas, preflight.Uses{Calls: []preflight.Call{ready("git_hub", "list_issues")}})
	if d := cmp.Diff([]string{"line 2: git_hub.list_issues: argument owner: is missing"}, got); d != "" {
		t.Error(d)
	}
}

func TestCheckAcceptsPythonNamesInCallTool(t *testing.T) {
	schemas := func(d tool.Definition) *schema.Schema { return schema.Compile(d.Input) }
	for _, names := range [][2]string{{"git-hub", "list-issues"}, {"git_hub", "list-issues"}, {"git_hub", "list_issues"},
		{"git-hub", "list_issues"}} {
		u := preflight.Uses{Calls: []preflight.Call{{Server: names[0], Function: names[1], ByName: true, Unpacks: true}}}
		if got := preflight.Check(snapshot(t), nil, schemas, u); len(got) > 0 {
			t.Errorf("%v: %q", names, got)
		}
	}
}
