package cost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/cost"
)

func TestReadListsAcceptsVariants(t *testing.T) {
	for text, want := range map[string]string{
		`{"tools": []}`: "",
		`{"tools": [{"name": "a"}, {"name": "a"}, {"name": ""}, {"name": "b", "inputSchema": true}]}`: "a {} b {}",
		`{"result": {"tools": [{"name": "a", "inputSchema": {"type": "object" }}]}}`:                  `a {"type":"object"}`,
		`{"tools": [{"name": "a", "inputSchema": null, "more": [1]}], "server": {}}`:                  "a {}",
	} {
		lists, err := cost.ReadLists(file(t, text))
		var got []string
		for _, d := range lists["list"].Tools {
			got = append(got, d.Tool, string(d.Input))
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, d)
		}
	}
}

func TestReadListsRejectsOtherFiles(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"tools": {}}`, `{"tools": [1]}`, `{"result": {}}`, "\xff", strings.Repeat("[", 1<<16)} {
		if _, err := cost.ReadLists(file(t, text)); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err),
			"is not a tools/list result") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func file(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFailedDiscoveriesAreCounted(t *testing.T) {
	lists, err := cost.ReadLists(file(t, `{"tools": [{"name": "add", "description": "Add two numbers"}, {"name": "send", "description": `+
		`"Send a message"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := lists.Open(t.Context(), t.TempDir(), feature.OfDaemon(all.Features()))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	never := func(string, string) bool { return false }
	m := newCounter(t, d)
	for _, q := range []cost.Query{
		{Text: "add numbers", Matches: func(_, tool string) bool { return tool == "add" }},
		{Text: "send a message", Matches: never},
		{Text: "zzzzzzzz", Matches: never},
	} {
		if err := m.Measure(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	got := m.Discovery()
	all := 3 * (float64(got.List) + got.Query + got.Answer + got.Definition)
	if got.Queries != 3 || got.Found != 1 || got.PerSuccess < all-1 || got.PerSuccess > all+1 {
		t.Errorf("%+v", got)
	}
	if none := newCounter(t, d).Discovery(); none.PerSuccess != 0 || none.Queries != 0 {
		t.Errorf("without discoveries: %+v", none)
	}
}

func newCounter(t *testing.T, d *daemon.Daemon) *cost.Counter {
	t.Helper()
	return cost.NewCounter(d)
}
