package search_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// thirtyThousand copies the tools of all suites to more servers.
func thirtyThousand(b *testing.B) ([]search.Doc, []queryRow) {
	e := loadEvaluation(b)
	once := docsOf(e.tools)
	var docs []search.Doc
	for n := 0; len(docs) < 30000; n++ {
		for _, d := range once {
			if n > 0 {
				d.Server = fmt.Sprintf("%s %d", d.Server, n+1)
			}
			docs = append(docs, d)
		}
	}
	return docs[:30000], e.queries
}

func BenchmarkSearch30k(b *testing.B) {
	docs, queries := thirtyThousand(b)
	x := search.New(docs)
	measure(b, queries, func(text string) { x.Search(search.Query{Text: text, Limit: 10}) })
}

// measure reports the median and the 99th percentile of searches.
func measure(b *testing.B, queries []queryRow, search func(text string)) {
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		search(queries[i%len(queries)].Query)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkShort30k searches for one or two words.
func BenchmarkShort30k(b *testing.B) {
	docs, _ := thirtyThousand(b)
	x := search.New(docs)
	queries := []string{"issue", "list_issues", "send email", "e", "weather", "github", "convert currency", "-", "get"}
	for i := 0; b.Loop(); i++ {
		x.Search(search.Query{Text: queries[i%len(queries)]})
	}
}

func BenchmarkIndex(b *testing.B) {
	docs, _ := thirtyThousand(b)
	for b.Loop() {
		search.New(docs)
	}
	b.StopTimer()
	before := heap()
	x := search.New(docs)
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-kept")
	runtime.KeepAlive(x)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkUses30k searches with the records of a tenant.
func BenchmarkUses30k(b *testing.B) {
	docs, queries := thirtyThousand(b)
	x := search.New(docs)
	at := map[[2]string]int{}
	for i, d := range docs {
		at[[2]string{d.Server, d.Name}] = i
	}
	var all []search.Use
	for i := range 500 {
		q := queries[i]
		all = append(all, search.Use{Server: q.Expected[0].Server, Tool: q.Expected[0].Tool, Terms: search.Terms(q.Query), Searches: 2,
			Lower: 1})
	}
	uses := search.NewUses(all)
	measure(b, queries, func(text string) {
		q := search.Query{Text: text, Limit: 10, Boosts: map[int]search.Boost{}}
		x.Boosts(uses, q.Text, func(server, tool string, b search.Boost) {
			if d, ok := at[[2]string{server, tool}]; ok {
				q.Boosts[d] = b
			}
		})
		x.Search(q)
	})
}
