package wire

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// TestConformance runs the conformance suites against the HTTP server with their fixtures. The
// results by scenario are in testdata/conformance; CONFORMANCE_UPDATE=1 updates them. No check may fail.
func TestConformance(t *testing.T) {
	// Passed checks as counted by the suites, of scored and other scenarios.
	totals := map[string]int{"0.1": 40, "0.2-2025-11-25": 84, "0.2-2026-07-28": 196}
	for _, suite := range wiretest.Suites() {
		t.Run(suite.Name, func(t *testing.T) {
			tallies := suite.Run(t, serveFixtures(t))
			total := 0
			for name, tally := range tallies {
				total += tally.Passed
				if len(tally.Failed) > 0 {
					t.Errorf("%s:\n%s", name, strings.Join(tally.Failed, "\n"))
				}
			}
			if total != totals[suite.Name] {
				t.Errorf("%d checks passed, want %d", total, totals[suite.Name])
			}
			matchFile(t, filepath.Join("testdata", "conformance", suite.Name+".txt"), report(tallies))
		})
	}
}

// report returns a line for each scenario.
func report(tallies map[string]wiretest.Tally) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		fmt.Fprintf(&b, "%s: %d passed, %d failed\n", name, tallies[name].Passed, len(tallies[name].Failed))
	}
	return b.String()
}

func matchFile(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("CONFORMANCE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// serveFixtures serves the fixtures as the daemon serves its tools, and returns the URL.
func serveFixtures(t *testing.T) string {
	t.Helper()
	h, err := fixtures(Config{Name: "fixtures", Version: "1"}, HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := httpserver.New(httpserver.Config{MCP: h, Drain: h.Drain})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ln, err := httpserver.Listen(ctx, "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String() + "/mcp"
}
