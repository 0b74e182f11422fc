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

	"github.com/sandpiper-mcp/sandpiper/bench/cost"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// dataDir lies beside the repository; it is not part of it.
const dataDir = "../../../shared/data/search"

// mostPerSuccess is what a change must not lose again; what is aimed at is 1,000.
// Some 40 are what the list of tools says of dry runs and of going on.
const mostPerSuccess = 1480

type toolRow struct {
	Server, Tool, Description string
	Schema                    json.RawMessage `json:"input_schema"`
	About                     string          `json:"server_description"`
}

type queryRow struct {
	Query, Kind string
	Expected    []struct{ Server, Tool string }
}

// The queries of people, among catalogs of several sizes: the first servers in
// the order of their names with the queries that they can answer, all 7,281 tools
// of 1,638 servers, and those again and again under other names.
func TestWhatASuccessfulDiscoveryCosts(t *testing.T) {
	longtest.Skip(t)
	tools, queries := readData(t)
	for _, size := range []int{100, 1000, len(tools), 30_000} {
		d, kept := openTools(t, tools, size)
		m := newMeter(t, d)
		for _, q := range queries {
			ask := cost.Question{Text: q.Query, Wants: func(server, name string) bool { return q.expects(original(server), name) }}
			if !slices.ContainsFunc(kept, func(r toolRow) bool { return q.expects(r.Server, r.Tool) }) {
				continue
			}
			if err := m.Ask(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
		}
		got := m.Discovery()
		t.Logf("%d tools: %+v", size, got)
		if size == len(tools) && (got.PerSuccess > mostPerSuccess || got.PerSuccess == 0) {
			t.Errorf("a successful discovery costs %.0f tokens, and did at most %d", got.PerSuccess, mostPerSuccess)
		}
		d.Close()
	}
}

// expects reports whether a tool is what the query asks for.
func (q queryRow) expects(server, name string) bool {
	return slices.ContainsFunc(q.Expected, func(e struct{ Server, Tool string }) bool {
		return e.Server == server && (e.Tool == name || e.Tool == "*")
	})
}

// readData reads tools, those of one server beside each other, and queries.
func readData(t *testing.T) ([]toolRow, []queryRow) {
	f, err := os.Open(filepath.Join(dataDir, "tools.jsonl.gz"))
	if os.IsNotExist(err) {
		t.Skipf("the tools and queries to measure on are not here: %s, relative to this package", dataDir)
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

// again stands between the name of a server and the number of its copy.
const again = " again "

func original(server string) string {
	name, _, _ := strings.Cut(server, again)
	return name
}

// openTools opens a daemon that knows n tools, and returns those that are no
// copies.
func openTools(t *testing.T, tools []toolRow, n int) (*daemon.Daemon, []toolRow) {
	lists := cost.Lists{}
	for i := range n {
		r := tools[i%len(tools)]
		name := r.Server
		if i >= len(tools) {
			name += again + strconv.Itoa(i/len(tools))
		}
		l := lists[name]
		l.Instructions = r.About
		l.Tools = append(l.Tools, tool.Definition{Ref: tool.Ref{Tool: r.Tool}, Description: r.Description, Input: compact(t, r.Schema)})
		lists[name] = l
	}
	d, err := lists.Open(t.Context(), t.TempDir())
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
