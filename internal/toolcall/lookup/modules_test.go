package lookup_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// handFinder returns a Finder of one tool and three handwritten functions, one of them in the
// module of the tool's server.
func handFinder(t *testing.T) *lookup.Finder {
	_, c := finder(t)
	var others []tool.Definition
	for _, name := range strings.Fields("send_mail open_door resize_image play_song translate_text book_flight pay_bill read_sensor " +
		"print_page charge_battery") {
		others = append(others, tool.Definition{Ref: tool.Ref{Server: "down", Tool: name}, Input: json.RawMessage("true")})
	}
	if _, err := c.Put(t.Context(), "down", catalog.Listing{Tools: others}); err != nil {
		t.Fatal(err)
	}
	read := func(module, source string) []codegen.Handwritten {
		return codegen.Server{Module: module, Files: []codegen.File{{Path: module + "/tools.py", Data: []byte(source)}}}.Handwritten()
	}
	all := append(read("weather", "def get_weather(city: str) -> dict:\n    'Return the weather of a city.'\ndef count_issues(): 'Counts "+
		"the open issues.'\n"),
		read("git_hub", "def close_issue(number: int): 'Closes an issue of a repository.'\n")...)
	return lookup.New(lookup.Config{Catalog: c, Handwritten: func() []codegen.Handwritten { return all }})
}

func names(found lookup.Found) string {
	var all []string
	for _, h := range found.Tools {
		all = append(all, h.Server+"."+h.Name)
	}
	return strings.Join(all, " ")
}

func TestSearchFindsHandwrittenFunctions(t *testing.T) {
	f := handFinder(t)
	for _, test := range []struct {
		q     lookup.Query
		want  string
		count int
	}{
		{lookup.Query{Text: "weather"}, "weather.get_weather weather.count_issues", 2},
		{lookup.Query{Text: "issue"}, "git-hub.list-issues git_hub.close_issue weather.count_issues", 3},
		{lookup.Query{Text: "issue", Limit: 1}, "git-hub.list-issues", 3},
		{lookup.Query{Text: "count_issues", Limit: 2}, "weather.count_issues git-hub.list-issues", 3},
		{lookup.Query{Category: "handwritten", Limit: 2}, "weather.get_weather weather.count_issues", 3},
		{lookup.Query{Text: "nothing of the kind"}, "", 0},
	} {
		found, err := f.Search(t.Context(), test.q)
		if err != nil || names(found) != test.want || found.Count != test.count || (found.Hint == "") != (test.want != "") {
			t.Errorf("%+v: %q, %d, %q, %v", test.q, names(found), found.Count, found.Hint, err)
		}
	}
	found, err := f.Search(t.Context(), lookup.Query{Text: "get_weather", Detail: lookup.Full, Limit: 1})
	want := []lookup.Hit{{Name: "get_weather", Category: "handwritten", Server: "weather", Description: "Return the weather of a city",
		Signature: "get_weather(city: str) -> dict", Import: "from servers.weather import get_weather"}}
	if d := cmp.Diff(want, found.Tools); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestSearchHidesHandwrittenFunctions(t *testing.T) {
	allow, err := catalog.NewAllow([]string{"git*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for only, want := range map[*catalog.Allow]string{
		allow: "git-hub.list-issues git_hub.close_issue",
		catalog.NewAllowExactly([]string{"git-hub.list-issues"}): "git-hub.list-issues",
	} {
		f := handFinder(t).For(catalog.Viewer{Only: only})
		found, err := f.Search(t.Context(), lookup.Query{Text: "issue"})
		if err != nil || names(found) != want {
			t.Errorf("%q, %v; want %q", names(found), err, want)
		}
		if _, err := f.Define(t.Context(), nil, "get_weather", ""); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%v", err)
		}
	}
}

func TestServerToolsOfHandwrittenModules(t *testing.T) {
	f := handFinder(t)
	for server, want := range map[string]string{"weather": "weather.get_weather weather.count_issues",
		"git_hub": "git-hub.list-issues git_hub.close_issue"} {
		got, err := f.ServerTools(t.Context(), server)
		if found := (lookup.Found{Tools: got.Tools}); err != nil || names(found) != want || got.Count != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
