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
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/bench/cost"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// dataDir lies beside the repository; it is not part of it.
const dataDir = "../../../../shared/data/search"

// mostPerSuccess is what a change must not lose again; what is aimed at is 1,000.
const mostPerSuccess = 1850

type toolRow struct {
	Server, Tool, Description string
	Schema                    json.RawMessage `json:"input_schema"`
	About                     string          `json:"server_description"`
}

type queryRow struct {
	Query, Kind string
	Expected    []struct{ Server, Tool string }
}

// The queries of people, among 7,281 tools of 1,638 servers.
func TestWhatASuccessfulDiscoveryCosts(t *testing.T) {
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
	lists := cost.Lists{}
	for _, r := range readLines[toolRow](t, z) {
		l := lists[r.Server]
		l.Instructions = r.About
		l.Tools = append(l.Tools, tool.Definition{Ref: tool.Ref{Tool: r.Tool}, Description: r.Description, Input: compact(t, r.Schema)})
		lists[r.Server] = l
	}
	g, err := os.Open(filepath.Join(dataDir, "queries-dev.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	d, err := lists.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := cost.Run(t.Context(), cost.Config{Daemon: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	all, one := newMeter(t, d), newMeter(t, d)
	for _, q := range readLines[queryRow](t, g) {
		ask := cost.Question{Text: q.Query, Wants: func(server, name string) bool {
			return slices.ContainsFunc(q.Expected, func(e struct{ Server, Tool string }) bool {
				return e.Server == server && (e.Tool == name || e.Tool == "*")
			})
		}}
		if err := all.Ask(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		if len(q.Expected) == 1 {
			if err := one.Ask(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("all queries, any of the expected tools: %+v", all.Discovery())
	t.Logf("queries with one expected tool: %+v", one.Discovery())
	if got := all.Discovery().PerSuccess; got > mostPerSuccess || got == 0 {
		t.Errorf("a successful discovery costs %.0f tokens, and did at most %d", got, mostPerSuccess)
	}
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

func newMeter(t *testing.T, d *daemon.Daemon) *cost.Meter {
	t.Helper()
	m, err := cost.NewMeter(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
