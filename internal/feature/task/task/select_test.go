package task_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// snapshot is a catalog of three servers; the last one is not connected.
func snapshot(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(catalog.Config{
		Dir:     t.TempDir(),
		Servers: []catalog.Configured{{Name: "calculator", Identity: "c"}, {Name: "weather", Identity: "w"}},
		Static: []catalog.Static{{Categories: map[string]catalog.StaticCategory{"mail": {Tools: map[string]catalog.StaticTool{
			"send_sum": {Server: "mail", Description: "Sends the sum of two numbers."},
		}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for server, all := range map[string]map[string]string{
		"calculator": {"add": "Add two numbers, and return the sum.", "subtract": "Subtract two numbers.",
			"multiply": "Multiply two numbers."},
		"weather": {"get_weather": "Return the weather of a city.", "get_forecast": "Return the weather of the next days."},
	} {
		var listing catalog.Listing
		for name, about := range all {
			listing.Tools = append(listing.Tools, tool.Definition{Ref: tool.Ref{Server: server, Tool: name}, Description: about,
				Input: []byte(`{"type":"object"}`)})
		}
		if _, err := c.Put(t.Context(), server, listing); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func names(s task.Selection) (all []string) {
	for _, t := range s.Tools {
		all = append(all, t.Name)
	}
	return all
}

func TestSelectReturnsTheBestTools(t *testing.T) {
	c := snapshot(t)
	s, err := task.Select(t.Context(), c.Now(), nil, task.Query{Task: "What is the weather in Paris?"})
	if err != nil || len(s.Tools) == 0 || s.Tools[0].Name != "weather.get_weather" || s.Tools[0].Score != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if s.Available != 5 || s.Share != float64(len(s.Tools))/5 || s.Tokens <= 0 || s.Tokens >= s.AllTokens {
		t.Errorf("%+v", s)
	}
	one, err := task.Select(t.Context(), c.Now(), nil, task.Query{Task: "What is the weather in Paris?", TopK: 1})
	if diff := cmp.Diff([]string{"weather.get_weather"}, names(one)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	best, err := task.Select(t.Context(), c.Now(), nil, task.Query{Task: "add two numbers", Threshold: 1})
	if diff := cmp.Diff([]string{"calculator.add"}, names(best)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestSelectOmitsToolsThatCannotBeCalled(t *testing.T) {
	c := snapshot(t)
	changed := catalog.Listing{Tools: []tool.Definition{{Ref: tool.Ref{Server: "calculator", Tool: "add"},
		Description: "Add two numbers, and send the sum.", Input: []byte(`{"type":"object"}`)}}}
	if _, err := c.Put(t.Context(), "calculator", changed); err != nil {
		t.Fatal(err)
	}
	s, err := task.Select(t.Context(), c.Now(), nil, task.Query{Task: "add two numbers and send the sum"})
	for _, name := range names(s) {
		if name == "calculator.add" || strings.HasPrefix(name, "mail.") {
			t.Errorf("%s is selected", name)
		}
	}
	if s.Available != 2 || err != nil {
		t.Errorf("%d tools are available, %v", s.Available, err)
	}
}

func TestSelectRejectsInvalidQueries(t *testing.T) {
	c := snapshot(t)
	for _, q := range []task.Query{{}, {Task: " "}, {Task: strings.Repeat("x", 9000)}, {Task: "x", Threshold: 1.5},
		{Task: "x", Threshold: -1}, {Task: "x", TopK: -1}, {Task: "x", TopK: 1000}} {
		if _, err := task.Select(t.Context(), c.Now(), nil, q); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.20v: %v", q, err)
		}
	}
	s, err := task.Select(t.Context(), c.Now(), nil, task.Query{Task: "zzzz qqqq"})
	if len(s.Tools) != 0 || s.Share != 0 || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
}
