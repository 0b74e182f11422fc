package main

import (
	"bufio"
	"os/exec"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/cmd/sandpiper/testdata/ledger"
)

// startLedger starts the ledger over HTTP and returns its URL: /mcp and /sse speak MCP, /openapi.json
// describes the API. stop ends it.
func startLedger(t *testing.T, file string) (at string, stop func()) {
	t.Helper()
	cmd := exec.Command("ledger", file, "http")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { in.Close(); _ = cmd.Wait() })
	t.Cleanup(stop)
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the server is silent")
	}
	return lines.Text(), stop
}

// entered counts the calls by number.
func entered(t *testing.T, path string) map[int]int {
	t.Helper()
	return ledger.Entries(path)
}
