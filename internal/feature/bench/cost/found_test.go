package cost_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/cost"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// dataDir is outside the repository.
const dataDir = "../../../../../shared/data/search"

// maxPerSuccess is the regression limit. Search was tuned on these queries.
const maxPerSuccess = 1000

type toolRow struct {
	Server, Tool, Description string
	Schema                    json.RawMessage `json:"input_schema"`
	About                     string          `json:"server_description"`
}

type queryRow struct {
	Suite, Query, Kind string
	Expected           []struct{ Server, Tool string }
}

// TestCostPerSuccess runs queries written by people on catalogs of several sizes: the
// first servers by name with the queries that they can answer, all 7,281 tools of 1,638
// servers, and copies of those under other names.
func TestCostPerSuccess(t *testing.T) {
	longtest.Skip(t)
	tools, queries := readData(t)
	for _, size := range []int{100, 1000, len(tools), 30_000} {
		d, kept := openTools(t, tools, size)
		m := newCounter(t, d)
		for _, q := range queries {
			ask := cost.Query{Text: q.Query, Matches: func(server, name string) bool { return q.expects(original(server), name) }}
			if !slices.ContainsFunc(kept, func(r toolRow) bool { return q.expects(r.Server, r.Tool) }) {
				continue
			}
			if err := m.Measure(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
		}
		got := m.Discovery()
		t.Logf("%d tools: %+v", size, got)
		if size == len(tools) && (got.PerSuccess > maxPerSuccess || got.PerSuccess == 0) {
			t.Errorf("a successful discovery costs %.0f tokens, want at most %d", got.PerSuccess, maxPerSuccess)
		}
		d.Close()
	}
}

// expects reports whether a tool is an expected result.
func (q queryRow) expects(server, name string) bool {
	return slices.ContainsFunc(q.Expected, func(e struct{ Server, Tool string }) bool {
		return e.Server == server && (e.Tool == name || e.Tool == "*")
	})
}

// readData reads tools, sorted by server, and queries.
func readData(t *testing.T) ([]toolRow, []queryRow) {
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
	g, err := os.Open(filepath.Join(dataDir, "queries-dev.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	tools := readLines[toolRow](t, z)
	slices.SortStableFunc(tools, func(a, b toolRow) int { return strings.Compare(a.Server, b.Server) })
	return tools, readLines[queryRow](t, g)
}

// copySuffix separates the name of a server and the number of its copy.
const copySuffix = " again "

func original(server string) string {
	name, _, _ := strings.Cut(server, copySuffix)
	return name
}

// openTools opens a daemon with n tools, and returns the rows of those that are not
// copies.
func openTools(t *testing.T, tools []toolRow, n int) (*daemon.Daemon, []toolRow) {
	lists := cost.Lists{}
	for i := range n {
		r := tools[i%len(tools)]
		name := r.Server
		if i >= len(tools) {
			name += copySuffix + strconv.Itoa(i/len(tools))
		}
		l := lists[name]
		l.Instructions = r.About
		l.Tools = append(l.Tools, tool.Definition{Ref: tool.Ref{Tool: r.Tool}, Description: r.Description, Input: compact(t, r.Schema)})
		lists[name] = l
	}
	d, err := lists.Open(t.Context(), t.TempDir(), feature.OfDaemon(all.Features()))
	if err != nil {
		t.Fatal(err)
	}
	return d, tools[:min(n, len(tools))]
}

func compact(t *testing.T, data json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readLines[T any](t *testing.T, r io.Reader) (rows []T) {
	s := bufio.NewScanner(r)
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
