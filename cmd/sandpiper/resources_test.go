package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
)

// A subscriber over stdio is notified of writes by code and by other commands with the
// same data directory.
func TestSubscriberIsNotifiedOfWrites(t *testing.T) {
	needSandbox(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- run(t.Context(), all.Features(), []string{"serve"}, inR, outW, io.Discard) }()
	answers := bufio.NewScanner(outR)
	answers.Buffer(nil, 1<<20)
	say := func(format string, args ...any) { fmt.Fprintf(inW, format+"\n", args...) }
	hear := func(want string) {
		t.Helper()
		if !answers.Scan() || !strings.Contains(answers.Text(), want) {
			t.Fatalf("got %s (%v), want %s", answers.Text(), answers.Err(), want)
		}
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	hear(`"subscribe":true`)
	for _, uri := range []string{"workspace://out/report.csv", "skill://made_here"} {
		say(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, uri)
		hear(`"result":{}`)
	}

	// The result and the notification arrive in either order.
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"import ` +
		`os\nos.makedirs('out')\nopen('new', 'w').write('a,b\\n')\nos.rename('new', 'out/report.csv')"}}}`)
	told := `"notifications/resources/updated","params":{"uri":"workspace://out/report.csv"}`
	both := ""
	for range 2 {
		if !answers.Scan() {
			t.Fatal("the server is silent")
		}
		both += answers.Text()
	}
	if !strings.Contains(both, told) || !strings.Contains(both, `\"success\":true`) {
		t.Fatalf("got %s", both)
	}

	report := filepath.Join(t.TempDir(), "report.csv")
	if err := os.WriteFile(report, []byte("a,b\n1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(t.Context(), all.Features(), []string{"files", "put", report, "--as", "out/report.csv"}, strings.NewReader(""),
		io.Discard, io.Discard); got != cli.ExitOK {
		t.Fatalf("files put ended with %d", got)
	}
	hear(told)
	say(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"workspace://out/report.csv"}}`)
	hear(`"mimeType":"text/csv","text":"a,b\n1,2\n"`)
	inW.Close()
	if got := <-code; got != cli.ExitOK {
		t.Errorf("exit code %d", got)
	}
}

// doubleFolder is the skill of callTools as an Agent Skills folder shows it.
const doubleFolder = `---
name: double
description: "twice as much"
metadata:
  sandpiper-name: "double"
  version: "1"
  tags: "math"
---

# double

twice as much

The code is ` + "`scripts/double.py`" + `, a Python module. In Sandpiper, import it with ` + "`from skills import double`" + `.
`

// readResources reads the resources that callTools created.
func readResources(t *testing.T, c inspector) {
	var list struct{ Resources []struct{ URI string } }
	out, _ := c.run(t, "lean", "--method", "resources/list")
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	got := map[string]string{}
	for _, r := range list.Resources {
		var read struct{ Contents []struct{ Text string } }
		out, _ := c.run(t, "lean", "--method", "resources/read", "--uri", r.URI)
		if err := json.Unmarshal(out, &read); err != nil || len(read.Contents) != 1 {
			t.Fatalf("%s reads as %s", r.URI, out)
		}
		got[r.URI] = read.Contents[0].Text
	}
	want := map[string]string{
		"skill://double":            "def double(x): return 2 * x",
		"skill://double/SKILL.md":   doubleFolder,
		"workspace://in/orders.csv": "id,amount\n1,10\n2,32\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
