package search_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

var savedDocs = []search.Doc{
	{Name: "list_issues", Server: "github", Category: "dev", Description: "List the issues of a repository. Filters by label.",
		Params: []string{"repo", "label"}},
	{Name: "createIssue", Server: "github", Category: "dev", Description: "Create an issue.", UseCases: []string{"report a bug"}},
	{Name: "airqualityforecast", Server: "weather", Description: "Forecast the quality of air. 空気の質",
		ServerDescription: "Weather and air quality, quality of air"},
	{Name: "send", Server: "mail", Functions: []string{"send a letter"}},
	{},
}

// A decoded index answers like the one that was encoded, in every part of the ranking.
func TestDecodedIndexFindsTheSame(t *testing.T) {
	x := search.New(savedDocs)
	decoded, err := search.Decode(search.Encode(x))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"issue", "list issues", "repport a bug", "air quality", "空気", "sen", "send a letter", "forcast",
		"nothing fits", "-", ""} {
		for _, category := range []string{"", "dev"} {
			q := search.Query{Text: text, Category: category}
			if diff := cmp.Diff(x.Search(q), decoded.Search(q)); diff != "" {
				t.Errorf("%q in %q: %s", text, category, diff)
			}
		}
		all := []int{0, 1, 2, 3, 4}
		if a, b := x.Fits(text, all), decoded.Fits(text, all); !slices.Equal(a, b) {
			t.Errorf("%q fits %v, and %v in the decoded index", text, a, b)
		}
	}
	if diff := cmp.Diff(search.Encode(x), search.Encode(decoded)); diff != "" {
		t.Error("the decoded index is encoded differently")
	}
}

// An index of many tools is decoded to one that ranks all development queries equally.
func TestDecodedIndexRanksTheSame(t *testing.T) {
	e := loadEvaluation(t)
	x := search.New(docsOf(e.tools))
	decoded, err := search.Decode(search.Encode(x))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range e.queries {
		if a, b := x.Search(search.Query{Text: q.Query}), decoded.Search(search.Query{Text: q.Query}); !slices.Equal(a.Found, b.Found) ||
			a.Total != b.Total {
			t.Fatalf("%q: %v, and %v in the decoded index", q.Query, a, b)
		}
	}
}

// Bytes of another length, or whose lengths do not fit, are refused.
func TestDecodeRefusesOtherBytes(t *testing.T) {
	whole := search.Encode(search.New(savedDocs))
	for n := range whole {
		if _, err := search.Decode(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are decoded", n, len(whole))
		}
	}
	if _, err := search.Decode(append(slices.Clone(whole), 0)); err == nil {
		t.Error("a longer index is decoded")
	}
}

func BenchmarkDecode30k(b *testing.B) {
	docs, _ := thirtyThousand(b)
	encoded := search.Encode(search.New(docs))
	for b.Loop() {
		if _, err := search.Decode(encoded); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(encoded))/(1<<20), "MiB")
}
