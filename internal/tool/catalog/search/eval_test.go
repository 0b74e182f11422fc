package search_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// dataDir is outside the repository.
const dataDir = "../../../../../shared/data/search"

// Lower bounds on the development queries, which catch regressions. Search was
// tuned on these queries, so they overstate recall: docs/search.md has the
// held-out figures.
const (
	aimMacro5      = .60
	aimParaphrase5 = .40
	aimOwn1        = .82 // azure-mcp alone, a server with many tools
)

type toolRow struct {
	Suite, Server, Tool, Description string
	Schema                           json.RawMessage `json:"input_schema"`
	About                            string          `json:"server_description"`
}

type queryRow struct {
	ID, Suite, Query, Kind string
	Expected               []struct{ Server, Tool string }
}

// evaluation has the tools of all suites and the queries about them.
type evaluation struct {
	tools   []toolRow
	queries []queryRow
}

func loadEvaluation(t testing.TB) (e evaluation) {
	f, err := os.Open(filepath.Join(dataDir, "tools.jsonl.gz"))
	if os.IsNotExist(err) {
		t.Skipf("the evaluation data is missing: %s, relative to this package", dataDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	e.tools = readLines[toolRow](t, bufio.NewScanner(z))
	g, err := os.Open(filepath.Join(dataDir, "queries-dev.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	e.queries = readLines[queryRow](t, bufio.NewScanner(g))
	return e
}

func readLines[T any](t testing.TB, s *bufio.Scanner) (rows []T) {
	s.Buffer(nil, 4<<20)
	for s.Scan() {
		var row T
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// suite gives the tools of one suite, or all of them.
func (e evaluation) suite(name string) (rows []toolRow) {
	for _, r := range e.tools {
		if name == "" || r.Suite == name {
			rows = append(rows, r)
		}
	}
	return rows
}

func docsOf(rows []toolRow) (docs []search.Doc) {
	for _, r := range rows {
		var s struct{ Properties map[string]json.RawMessage }
		_ = json.Unmarshal(r.Schema, &s) // some suites have a list of parameters instead of a schema
		docs = append(docs, search.Doc{Name: r.Tool, Server: r.Server, Description: r.Description, ServerDescription: r.About,
			Params: slices.Sorted(maps.Keys(s.Properties))})
	}
	return docs
}

var depths = [3]int{1, 5, 10}

// recalls is the recall at each of depths.
type recalls [3]float64

func (e evaluation) measure(ask func(string) search.Hits, rows []toolRow, q queryRow) (r recalls) {
	found := ask(q.Query).Found
	for _, want := range q.Expected {
		at := slices.IndexFunc(found, func(h search.Hit) bool {
			row := rows[h.Doc]
			return row.Server == want.Server && (want.Tool == "*" || row.Tool == want.Tool)
		})
		for i, d := range depths {
			if at >= 0 && at < d {
				r[i] += 1 / float64(len(q.Expected))
			}
		}
	}
	return r
}

// means averages by key.
type means map[string]*mean

type mean struct {
	sum recalls
	n   float64
}

func (m means) add(key string, r recalls) {
	if m[key] == nil {
		m[key] = &mean{}
	}
	for i := range r {
		m[key].sum[i] += r[i]
	}
	m[key].n++
}

func (m *mean) of(i int) float64 {
	if m == nil {
		return 0
	}
	return m.sum[i] / m.n
}

func (m *mean) String() string {
	return fmt.Sprintf("%.3f %.3f %.3f", m.of(0), m.of(1), m.of(2))
}

func (m means) macro() *mean {
	all := &mean{n: float64(len(m))}
	for _, v := range m {
		for i := range all.sum {
			all.sum[i] += v.of(i)
		}
	}
	return all
}

// half assigns a query to one of two halves by a hash of its ID.
func half(id string) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	return fmt.Sprint("half ", h.Sum32()>>7&1)
}

// report holds the recall of all queries, by group and by half.
type report struct {
	groups map[string]means // of "all" and each half: by suite and kind
	kinds  means            // "paraphrase, all", "own, half 0"
}

// report runs all queries on all suites, and those of azure-mcp also on that suite alone.
func (e evaluation) report(ask, alone func(string) search.Hits) report {
	all, own := e.suite(""), e.suite("azure-mcp")
	r := report{map[string]means{"all": {}, "half 0": {}, "half 1": {}}, means{}}
	for _, q := range e.queries {
		m := e.measure(ask, all, q)
		for _, part := range []string{"all", half(q.ID)} {
			r.groups[part].add(q.Suite+" "+q.Kind, m)
			r.kinds.add(q.Kind+", "+part, m)
		}
		if q.Suite == "azure-mcp" {
			m := e.measure(alone, own, q)
			r.kinds.add("own, all", m)
			r.kinds.add("own, "+half(q.ID), m)
		}
	}
	return r
}

func (r report) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, "recall at 1, 5 and 10")
	for _, g := range slices.Sorted(maps.Keys(r.groups["all"])) {
		fmt.Fprintf(&b, "%-22s %5.0f  %v\n", g, r.groups["all"][g].n, r.groups["all"][g])
	}
	for _, part := range []string{"all", "half 0", "half 1"} {
		p, o := r.kinds["paraphrase, "+part], r.kinds["own, "+part]
		low, high := wilson(p.of(1), p.n)
		fmt.Fprintf(&b, "%-6s  macro %v   paraphrases (%.0f) %v, at 5 from %.2f to %.2f   azure alone (%.0f) %v\n",
			part, r.groups[part].macro(), p.n, p, low, high, o.n, o)
	}
	return b.String()
}

// byWords returns a keyword search of rows.
func byWords(rows []toolRow) func(string) search.Hits {
	x := search.New(docsOf(rows))
	return func(text string) search.Hits { return x.Search(search.Query{Text: text, Limit: 10}) }
}

func TestRecall(t *testing.T) {
	e := loadEvaluation(t)
	r := e.report(byWords(e.suite("")), byWords(e.suite("azure-mcp")))
	t.Log(r)
	atLeast(t, "recall at 5", r.groups["all"].macro().of(1), aimMacro5)
	atLeast(t, "recall of paraphrases at 5", r.kinds["paraphrase, all"].of(1), aimParaphrase5)
	atLeast(t, "recall at 1 of the suite alone", r.kinds["own, all"].of(0), aimOwn1)
}

func atLeast(t *testing.T, what string, got, aim float64) {
	if got < aim {
		t.Errorf("%s is %.3f, want at least %.2f", what, got, aim)
	}
}

// wilson returns the 95 % confidence interval of a share p of n.
func wilson(p, n float64) (low, high float64) {
	const z = 1.96
	middle, spread := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (middle - spread) / (1 + z*z/n), (middle + spread) / (1 + z*z/n)
}
