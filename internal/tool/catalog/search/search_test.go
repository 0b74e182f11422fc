package search_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

func TestSearchRanksBestToolFirst(t *testing.T) {
	x := search.New(testCatalog)
	for query, want := range map[string]string{
		"list open issues":                  "listOpenIssues", // a name of several words in one
		"listopenissues":                    "listOpenIssues",
		"LIST_OPEN_ISSUES":                  "listOpenIssues",
		"publish an article":                "create_post", // other words
		"erase an article":                  "delete_post",
		"edit an article":                   "update_post",
		"remove the branch":                 "delete_branch",
		"will it rain in Turin tomorrow?":   "get_forecast",
		"wether forcast":                    "get_forecast", // errors
		"snoooze":                           "snooze",
		"restrat a virtual machine":         "vm_restart",
		"air quality":                       "airquality", // a name in parts
		"consumer groups of my event hub":   "eventhub_consumergroup_get",
		"add a page to my powerpoint":       "add_slide",
		"exchange rate of the dollar":       "convert_currency",
		"what can I cook with leeks":        "find_recipes",
		"get my money back, refund it":      "refund",
		"reservation of a room":             "book_hotel",
		"pull request":                      "merge-pull-request",
		"announcing a release":              "create_post", // a use case
		"sets tags":                         "create_post", // a function
		"read my email inbox":               "search_inbox",
		"query the database":                "db_query",
		"历史":                                "search_events",
		"Réserver: hôtel":                   "book_hotel", // accents
		"noop":                              "noop",
		"send":                              "send_email",
		"send_email":                        "send_email",
		"post":                              "create_post",
		"which buckets are in this account": "storage_bucket_list",
	} {
		if got := names(x.Search(search.Query{Text: query})); len(got) == 0 || got[0] != want {
			t.Errorf("%q returned %q, want %s first", query, got, want)
		}
	}
}

func TestSearchFindsContainedText(t *testing.T) {
	x := search.New(testCatalog)
	for query, want := range map[string][]string{
		"pos":                {"create_post", "update_post", "delete_post", "listOpenIssues", "create_issue"},
		"_iss":               {"create_issue"},
		"ENISS":              {"listOpenIssues"},
		"te_po":              {"create_post", "update_post", "delete_post"},
		"ull request into i": {"merge-pull-request"},
		"ets ta":             {"create_post"},
		"g a release to rea": {"create_post"},
		"索历":                 {"search_events"},
		"-":                  {"merge-pull-request", "send_email"},
		"at once.":           {"create_post"},
		", s":                {"search_inbox"},
		"blog":               {"create_post", "update_post", "delete_post"},
	} {
		h := x.Search(search.Query{Text: query, Limit: 100})
		got := names(h)
		if h.Total != len(got) {
			t.Errorf("%q returned %d of %d", query, len(got), h.Total)
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q returned %q without %s", query, got, w)
			}
		}
	}
	for _, query := range []string{"zzzzzz", "!!", "qqqq wwww", "xyzzyq"} {
		if h := x.Search(search.Query{Text: query}); h.Total != 0 || len(h.Found) != 0 {
			t.Errorf("%q returned %q", query, names(h))
		}
	}
}

func TestSearchDoesNotMatchAcrossFields(t *testing.T) {
	x := search.New([]search.Doc{{Name: "abc", Description: "def", Functions: []string{"ghi", "jkl"}}})
	for _, query := range []string{"cd", "c\x00d", "abcdef", "il", "i\x00j"} {
		if h := x.Search(search.Query{Text: query}); h.Total != 0 {
			t.Errorf("%q matches", query)
		}
	}
}

func TestEmptyQueryListsTools(t *testing.T) {
	x := search.New(testCatalog)
	for _, c := range []struct {
		category string
		limit    int
		total    int
		want     []string
	}{
		{"weather", 0, 3, []string{"get_forecast", "airquality", "get_tides"}},
		{" MONEY ", 2, 4, []string{"send_invoice", "list_payments"}},
		{"nowhere", 0, 0, nil},
		{"", 1, len(testCatalog), []string{"listOpenIssues"}},
	} {
		h := x.Search(search.Query{Text: " \n", Category: c.category, Limit: c.limit})
		if d := cmp.Diff(c.want, names(h)); d != "" || h.Total != c.total {
			t.Errorf("category %q: total %d, want %d: %s", c.category, h.Total, c.total, d)
		}
	}
	if h := x.Search(search.Query{}); len(h.Found) != 10 {
		t.Errorf("%d hits without a limit, want 10", len(h.Found))
	}
}

func TestSearchFiltersByCategory(t *testing.T) {
	x := search.New(testCatalog)
	all := x.Search(search.Query{Text: "send it"})
	mail := x.Search(search.Query{Text: "send it", Category: "mail"})
	if d := cmp.Diff([]string{"send_email"}, names(mail)[:1]); d != "" || mail.Total >= all.Total {
		t.Errorf("%d of %d: %s", mail.Total, all.Total, d)
	}
	for _, f := range mail.Found {
		if testCatalog[f.Doc].Category != "Mail" {
			t.Errorf("%s has another category", testCatalog[f.Doc].Name)
		}
	}
}

func TestSearchAnswersEachSegment(t *testing.T) {
	x := search.New(testCatalog)
	got := names(x.Search(search.Query{Text: "I am going to Porto with friends. Please tell me the weather there for the coming days, " +
		"and reserve a nice room in a hotel for us. Also send an invoice to the customer who pays for all that."}))
	for _, want := range []string{"get_forecast", "book_hotel", "send_invoice"} {
		if at := slices.Index(got, want); at < 0 || at > 3 {
			t.Errorf("%s is not among the first of %q", want, got)
		}
	}
}

func TestSearchFindsToolsByServer(t *testing.T) {
	x := search.New(testCatalog)
	got := x.Search(search.Query{Text: "forge", Limit: 4})
	for _, f := range got.Found {
		if testCatalog[f.Doc].Server != "forge" {
			t.Errorf("%q returned %q", "forge", names(got))
		}
	}
}

func TestLimitDoesNotChangeTotal(t *testing.T) {
	x := search.New(testCatalog)
	many := x.Search(search.Query{Text: "a post, an issue or a payment", Limit: 1000})
	few := x.Search(search.Query{Text: "a post, an issue or a payment", Limit: 3})
	if few.Total != many.Total || len(few.Found) != 3 || len(many.Found) != many.Total {
		t.Errorf("%d of %d, and %d of %d", len(few.Found), few.Total, len(many.Found), many.Total)
	}
	if d := cmp.Diff(many.Found[:3], few.Found); d != "" {
		t.Error(d)
	}
}

func TestSearchIsDeterministic(t *testing.T) {
	for _, query := range []string{"send", "get weather and post it", "wether", "a"} {
		want := search.New(testCatalog).Search(search.Query{Text: query})
		for range 5 {
			if d := cmp.Diff(want, search.New(testCatalog).Search(search.Query{Text: query})); d != "" {
				t.Fatalf("%q: %s", query, d)
			}
		}
	}
}

// hostile has texts to search for and to index.
var hostile = []string{"", "\x00", "\xff\xfe", "\u202e", strings.Repeat("a", 1<<16), strings.Repeat("a b ", 1<<14),
	strings.Repeat("é", 3000),
	strings.Repeat("and also the ", 500), "ＦＵＬＬ ｗｉｄｔｈ", "🦊🦊", "e\u0301\u0301\u0301", strings.Repeat("搜", 2000), "<a|b>(.*)[",
	"İstanbul ẞ ŉ",
	strings.Repeat("aB", 2000), strings.Repeat("a1", 15), "% _ ' \" \\", strings.Repeat("send email. ", 300)}

func TestSearchAcceptsHostileTexts(t *testing.T) {
	docs := slices.Clone(testCatalog)
	for i, h := range hostile {
		docs = append(docs, search.Doc{
			Name:              h,
			Server:            h,
			Category:          h,
			Description:       h,
			ServerDescription: h,
			Params:            []string{h},
			Functions:         []string{h, ""},
			UseCases:          hostile[:i],
		})
	}
	for _, x := range []*search.Index{search.New(docs), search.New(nil), search.New(docs[:1]), search.New(make([]search.Doc, 3))} {
		for _, h := range hostile {
			checkHits(t, x, search.Query{Text: h, Limit: 7})
			checkHits(t, x, search.Query{Text: h, Category: h, Limit: -1})
		}
	}
}

// checkHits searches and checks the invariants of hits.
func checkHits(t *testing.T, x *search.Index, q search.Query) search.Hits {
	t.Helper()
	h := x.Search(q)
	if len(h.Found) > h.Total || h.Total > 0 && len(h.Found) == 0 {
		t.Errorf("%.40q: %d found of %d", q.Text, len(h.Found), h.Total)
	}
	seen := map[int]bool{}
	for i, f := range h.Found {
		if seen[f.Doc] || i > 0 && !(f.Score <= h.Found[i-1].Score) {
			t.Errorf("%.40q: hit %d is %+v after %+v", q.Text, i, f, h.Found[:i])
		}
		seen[f.Doc] = true
	}
	return h
}

func TestSearchIsConcurrent(t *testing.T) {
	x := search.New(testCatalog)
	queries := []string{"send email", "wether", "publish", "post", "", "a b c"}
	want := make([]search.Hits, len(queries))
	for i, q := range queries {
		want[i] = x.Search(search.Query{Text: q})
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := (i + w) % len(queries)
				if d := cmp.Diff(want[n], x.Search(search.Query{Text: queries[n]})); d != "" {
					t.Error(d)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzContained compares the index with strings.Contains.
func FuzzContained(f *testing.F) {
	f.Add("send_email to one", "l t")
	f.Add("listIssues-of it", "issues-o")
	f.Add("ÀB c", "àb")
	f.Fuzz(func(t *testing.T, text, query string) {
		query = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(query, " "), "\x00", " "))
		if query == "" || len(query) > 1000 {
			t.Skip()
		}
		docs := []search.Doc{{Name: "other"}, {Description: text}, {Name: text + "x", UseCases: []string{"y" + text}}, {Name: query}}
		h := checkHits(t, search.New(docs), search.Query{Text: query, Limit: 10})
		for i, d := range docs {
			all := d.Name + "\x00" + d.Description + "\x00" + strings.Join(d.UseCases, "\x00")
			found := slices.ContainsFunc(h.Found, func(h search.Hit) bool { return h.Doc == i })
			if strings.Contains(strings.ToLower(all), strings.ToLower(query)) && !found {
				t.Errorf("%q did not find %q, which contains it", query, all)
			}
		}
	})
}
