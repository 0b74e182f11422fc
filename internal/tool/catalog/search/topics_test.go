package search_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

func TestTopics(t *testing.T) {
	for text, want := range map[string][]search.Topic{
		"list orders, exchange rates, tickets and stock": {{Name: "list orders", Text: "list orders"},
			{Name: "exchange rates", Text: "list exchange rates"}, {Name: "tickets", Text: "list tickets"}, {Name: "stock",
				Text: "list stock"}},
		"orders\nrates; tickets": {{Name: "orders", Text: "orders"}, {Name: "rates", Text: "rates"},
			{Name: "tickets", Text: "tickets"}},
		"create an issue and send a message": {{"create an issue and send a message", "create an issue and send a message", true},
			{Name: "create an issue", Text: "create an issue"}, {Name: "send a message", Text: "send a message"}},
		"orders and customers": {{"orders and customers", "orders and customers", true}, {Name: "orders", Text: "orders"},
			{Name: "customers", Text: "customers"}},
		"find and replace text in a file":       nil,
		"create, update and delete":             nil,
		"create an issue":                       nil,
		"create an issue and then show it":      nil,
		"weather forecast for Paris and Rome":   nil,
		"What is the weather, and who is here?": nil,
		"show the tables, 'a, b'":               nil,
		"What is it?\x1fa and b\x1f ":           {{Name: "What is it?", Text: "What is it?"}, {Name: "a and b", Text: "a and b"}},
		"":                                      nil,
		" ,, and ; \n":                          nil,
		"I would like to see the weather there for the coming days, and reserve a room": nil,
	} {
		if d := cmp.Diff(want, search.Topics(text)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestFitsNeedsWordOfTopic(t *testing.T) {
	x := search.New([]search.Doc{{Name: "list_orders", Server: "shop", Description: "List orders."},
		{Name: "list_rates", Server: "bank", Description: "List exchange rates."}, {Name: "remove_user", Server: "admin",
			Description: "Remove a user who has left the company. The package tracks it."}})
	for text, want := range map[string][]bool{
		"list shipments":   {false, false, false},
		"orders":           {true, false, false},
		"exchange rate":    {false, true, false},
		"list all of them": {true, true, true}, // no word names a thing
		"ordres":           {true, false, false},
	} {
		if d := cmp.Diff(want, x.Fits(text, []int{0, 1, 2})); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}
