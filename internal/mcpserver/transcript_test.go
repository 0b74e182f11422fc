package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

var update = flag.Bool("update", false, "write the answers of the server to the transcripts")

// TestTranscripts replays the transcripts in testdata. A file has a description, optional sections
// (profile; restricted; "server NAME" and "later NAME" with a script of package upstreamtest) and a
// transcript, in which "> " marks the client and "< " the server. Consecutive lines of the client are
// sent together; then the test reads until the server has answered all calls in them.
func TestTranscripts(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { play(t, file) })
	}
}

// limited is the restriction with the longest description.
var limited = execution.Restriction{Module: "limited", Library: "a safe part of its standard library (no os, sys, open, __dunder__)"}

func play(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	profile, script, cfg := builtin.Standard, &txtar.File{}, execution.Config{Backend: compiling{fake.New(fake.Config{})}}
	servers := map[string][]byte{} // scripts; "later NAME" is the second script of NAME
	for i, f := range archive.Files {
		switch f.Name {
		case "profile":
			profile = builtin.Profile(strings.TrimSpace(string(f.Data)))
		case "restricted":
			cfg.Restriction = limited
		case "transcript":
			script = &archive.Files[i]
		default:
			if name, ok := strings.CutPrefix(f.Name, "server "); ok {
				servers[name] = f.Data
				continue
			}
			if strings.HasPrefix(f.Name, "later ") {
				servers[f.Name] = f.Data
				continue
			}
			t.Fatalf("%s: unknown section %s", file, f.Name)
		}
	}
	want := string(script.Data)
	server := mcpserver.Config{Profile: profile}
	if len(servers) > 0 {
		server.Relay = newPassthrough(t, servers)
	}
	got := runTranscript(t, newServerOf(t, t.TempDir(), server, cfg), want)
	if *update {
		script.Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the transcript differs (-want +got); run with -update to accept the new one:\n%s", d)
	}
}

// runTranscript sends the client's lines of script to s and returns the script with the answers.
func runTranscript(t *testing.T, s *mcpserver.Server, script string) string {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeStdio(t.Context(), inR, outW)
		outW.Close()
	}()
	answers := bufio.NewReader(outR)
	var result strings.Builder
	for _, group := range groups(script) {
		result.WriteString(group.text)
		if _, err := io.WriteString(inW, group.sent); err != nil {
			t.Fatal(err)
		}
		for waiting := group.calls; waiting > 0; {
			line, err := answers.ReadBytes('\n')
			if err != nil {
				t.Fatalf("after %s: %v", group.text, err)
			}
			fmt.Fprintf(&result, "< %s", scrub(line))
			if !bytes.Contains(line, []byte(`"method"`)) {
				waiting--
			}
		}
	}
	inW.Close()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("ServeStdio: %v", err)
	}
	return result.String()
}

// group is a group of client lines that are sent together.
type group struct {
	text, sent string
	calls      int // among them
}

func groups(script string) []group {
	var all []group
	open := false
	for line := range strings.Lines(script) {
		sent, ours := strings.CutPrefix(line, "> ")
		if !ours {
			open = open && strings.TrimSpace(line) == ""
			continue
		}
		if !open {
			all = append(all, group{})
		}
		g := &all[len(all)-1]
		g.text += line
		g.sent += sent
		var call struct{ ID any }
		if json.Unmarshal([]byte(sent), &call) != nil || call.ID != nil {
			g.calls++ // a line that is not JSON is answered as well
		}
		open = true
	}
	return all
}

// scrubbed are the parts of an answer that differ between runs.
var scrubbed = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`exec_[a-z0-9]{26}`), "exec_ID"},
	{regexp.MustCompile(`(execution_time_ms\\":)\d+`), "${1}0"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z`), "TIME"},
	{regexp.MustCompile(`(\\"bytes\\":)\d+`), "${1}0"},
	{regexp.MustCompile(`(\\"spent\\":)\d+(,\\"saved\\":)-?[\d.]+`), "${1}0${2}0"}, // depend on the ids
}

func scrub(line []byte) []byte {
	for _, s := range scrubbed {
		line = s.find.ReplaceAll(line, []byte(s.put))
	}
	return line
}
