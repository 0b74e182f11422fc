package lookup_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// shops are servers with one tool for each topic, and one server with many tools that have the verb.
func shops() map[string][]tool.Definition {
	all := map[string][]tool.Definition{}
	add := func(server, name, about string) {
		all[server] = append(all[server], tool.Definition{Ref: tool.Ref{Server: server, Tool: name}, Description: about,
			Input: json.RawMessage(`{"type":"object","properties":{"page":{"type":"integer"}}}`)})
	}
	add("orders", "list_orders", "List orders.")
	add("orders", "get_order", "Get one order.")
	add("bank", "rates", "Exchange rates of a day.")
	add("crm", "find_customer", "Find a customer.")
	add("desk", "list_tickets", "List support tickets.")
	add("depot", "stock", "Stock of an item.")
	for i := range 30 {
		add("everything", fmt.Sprintf("list_thing_%c", 'a'+i%26), "List things, such as an order, by page.")
	}
	return all
}

func brief(t *testing.T, f *lookup.Finder, q lookup.Query) lookup.Brief {
	t.Helper()
	b, err := f.Brief(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBestToolOfEachTopicIsFirst searches for topics in a list: no server fills the answer, and a topic
// without a tool is named.
func TestBestToolOfEachTopicIsFirst(t *testing.T) {
	f := openFinder(t, shops(), 1)
	const text = "list orders, exchange rates, shipments, customers, tickets and stock"
	for name, query := range map[string]string{
		"text":  text,
		"array": lookup.JoinTopics("list orders", "exchange rates", "shipments", "customers", "tickets", "stock"),
		"lines": "list orders\nexchange rates; shipments\ncustomers\ntickets\nstock",
	} {
		t.Run(name, func(t *testing.T) {
			b := brief(t, f, lookup.Query{Text: query})
			stubs := map[string]string{}
			for _, g := range b.Servers {
				stubs[g.Module] = g.Lines[0]
				if len(g.Lines) > 10 {
					t.Errorf("%s fills the answer with %d tools", g.Module, len(g.Lines))
				}
			}
			for server, start := range map[string]string{"orders": "list_orders(page: int=None)", "bank": "rates(page",
				"crm": "find_customer(page", "desk": "list_tickets(page", "depot": "stock(page"} {
				if !strings.HasPrefix(stubs[server], start) {
					t.Errorf("%s: %q is not a stub of the best tool", server, stubs[server])
				}
			}
			if b.Hint != "nothing fits: shipments" {
				t.Errorf("hint %q", b.Hint)
			}
			if n := tokens.Count(encode(t, b)); n > lookup.MaxBrief {
				t.Errorf("%d tokens", n)
			}
		})
	}
}

func TestSingleTopicWithoutToolIsNamed(t *testing.T) {
	f := openFinder(t, shops(), 1)
	for text, want := range map[string]string{"list shipments": "nothing fits: list shipments", "list orders": "", "list customers": "",
		"show the oders": ""} {
		if b := brief(t, f, lookup.Query{Text: text}); b.Hint != want || b.Count == 0 {
			t.Errorf("%q: %q, %d", text, b.Hint, b.Count)
		}
	}
}

func TestTopicsInOtherDetailLevels(t *testing.T) {
	f := openFinder(t, shops(), 1)
	found, err := f.Search(t.Context(), lookup.Query{Text: lookup.JoinTopics("tickets", "stock", "zebra"), Limit: 2})
	if err != nil || len(found.Tools) != 2 || found.Tools[0].Name != "list_tickets" || found.Tools[1].Name != "stock" ||
		found.Query != "tickets, stock, zebra" || found.Hint != "nothing fits: zebra" {
		t.Errorf("%+v, %v", found, err)
	}
	many := slices.Repeat([]string{"tickets"}, 13)
	if _, err := f.Search(t.Context(), lookup.Query{Text: lookup.JoinTopics(many...)}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("13 topics: %v", err)
	}
}

func TestQueryInJSONIsTextOrArray(t *testing.T) {
	for text, want := range map[string]string{`"a"`: "a", `["a","b"]`: lookup.JoinTopics("a", "b")} {
		var q lookup.Query
		if err := json.Unmarshal([]byte(`{"query":`+text+`,"max_results":3}`), &q); err != nil || q.Text != want || q.Limit != 3 {
			t.Errorf("%s: %+v, %v", text, q, err)
		}
	}
	var q lookup.Query
	for _, text := range []string{`{"query":1}`, `{"query":["a",1]}`, `{"other":"a"}`} {
		if err := json.Unmarshal([]byte(text), &q); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
