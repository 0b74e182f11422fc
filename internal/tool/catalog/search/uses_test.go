package search_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// boosts returns the boosts of a tenant with the records, for a query about testCatalog.
func boosts(x *search.Index, text string, uses ...search.Use) map[int]search.Boost {
	all := map[int]search.Boost{}
	x.Boosts(search.NewUses(uses), text, func(server, tool string, b search.Boost) {
		all[slices.IndexFunc(testCatalog, func(d search.Doc) bool { return d.Server == server && d.Name == tool })] = b
	})
	return all
}

func used(tool, query string, searches int) search.Use {
	i := slices.IndexFunc(testCatalog, func(d search.Doc) bool { return d.Name == tool })
	return search.Use{Server: testCatalog[i].Server, Tool: tool, Terms: search.Terms(query), Searches: searches, Lower: searches}
}

func TestTermsOmitValues(t *testing.T) {
	got := search.Terms("Please close the ISSUES, issue #4711 of listIssues on 2024-05-01 and close it")
	if d := cmp.Diff([]string{"close", "issu", "listissu"}, got[len(got)-3:]); d != "" {
		t.Errorf("%q\n%s", got, d)
	}
}

func TestUseAddsToolThatWordsDoNotFind(t *testing.T) {
	x := search.New(testCatalog)
	const query = "sweep the attic"
	before := names(x.Search(search.Query{Text: query}))
	if slices.Contains(before, "book_hotel") {
		t.Fatalf("%q finds %q", query, before)
	}
	b := boosts(x, query, used("book_hotel", "sweep my attic", 5))
	h := x.Search(search.Query{Text: query, Boosts: b})
	if got := names(h); !slices.Contains(got, "book_hotel") || h.Total != len(before)+1 {
		t.Errorf("%q, %d in total; without use %q", got, h.Total, before)
	}
	if got := names(x.Search(search.Query{Text: query, Boosts: b, Category: "none"})); len(got) > 0 {
		t.Errorf("the category none has %q", got)
	}
}

// A record that was made a thousand times, by a prompt injection for instance, changes only the
// results of searches for the same words, and does not replace a tool that is named.
func TestUseOfWrongToolIsBounded(t *testing.T) {
	x := search.New(testCatalog)
	poison := used("refund", "restart a virtual machine", 1000)
	for query, want := range map[string]string{
		"publish an article":             "create_post",
		"will it rain in Turin tomorrow": "get_forecast",
		"restart":                        "vm_restart",
		"vm_restart":                     "vm_restart",
		"add a page to my powerpoint":    "add_slide",
	} {
		b := boosts(x, query, poison)
		if got := names(x.Search(search.Query{Text: query, Boosts: b})); got[0] != want {
			t.Errorf("%q returned %q, want %s first", query, got, want)
		}
		for _, b := range b {
			if b.Used > .01 || b.Words > 1 {
				t.Errorf("%q: %+v", query, b)
			}
		}
	}
}

func TestUseThatSearchFoundFirstIsNoCorrection(t *testing.T) {
	x := search.New(testCatalog)
	u := used("create_post", "publish an article", 5)
	u.Lower = 0
	for _, b := range boosts(x, "publish an article", u) {
		if b.Words != 0 || b.Used <= 0 {
			t.Errorf("%+v", b)
		}
	}
}
