package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// The examples with servers, and the factor by which they use fewer tokens than a direct
// client: slightly below the measured values, which are in their READMEs.
var examples = []struct {
	name  string
	code  string
	setup bool // setup.py must be run first
	times float64
}{
	{"02_multi_tool_chain", "code.py", false, 6.5},
	{"03_data_filtering", "code.py", true, 280},
	{"04_control_flow", "code.py", false, 4},
	{"crm", "crm.py", false, 600},
}

// A direct client receives all tool definitions of the servers and every result. In code
// mode it receives our tool definitions, the code and its result. The arguments that the
// model of the direct client would write are not counted.
func TestExamplesSaveTokens(t *testing.T) {
	longtest.SkipSlow(t)
	if runtime.GOOS != "linux" {
		t.Skip("examples run in the sandbox, which needs Linux")
	}
	needSandbox(t)
	servers := exampleServers(t)
	for _, e := range longtest.Rows(examples, 1) {
		t.Run(e.name, func(t *testing.T) {
			dir, said := t.TempDir(), t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "examples", e.name))); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			t.Setenv("SANDPIPER_CONFIG", "sandpiper.yaml") // its policy allows calls that need approval by default
			if e.setup {
				t.Setenv("XDG_DATA_HOME", t.TempDir())
				t.Setenv("SERVERS", servers)
				setUp(t)
			}
			t.Setenv("XDG_DATA_HOME", t.TempDir())
			t.Setenv("SERVERS", recordingServers(t, servers, said))
			here := codeModeTokens(t, e.code)
			definitions, results := direct(t, said)
			saved := float64(definitions+results) / float64(here)
			t.Logf("tokens direct: %d (%d definitions + %d results); tokens here: %d; %.1f times fewer", definitions+results, definitions,
				results, here, saved)
			if saved < e.times {
				t.Errorf("direct costs %.1f times what it does here; it was at least %.1f times", saved, e.times)
			}
		})
	}
}

func setUp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), all.Features(), []string{"exec", "setup.py"}, strings.NewReader(""), &out, &errs); code != cli.ExitOK {
		t.Fatalf("setup.py ended with %d: %s", code, errs.String())
	}
}

// recordingServers returns a directory with the servers, each of which also writes its
// output to a file in said.
func recordingServers(t *testing.T, servers, said string) string {
	dir := t.TempDir()
	found, err := os.ReadDir(servers)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		script := fmt.Sprintf("#!/bin/sh\n'%s' \"$@\" | tee -a '%s'\n", filepath.Join(servers, s.Name()), filepath.Join(said, s.Name()))
		if err := os.WriteFile(filepath.Join(dir, s.Name()), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// direct counts the tokens that a direct client of the servers would receive.
func direct(t *testing.T, said string) (definitions, results int) {
	files, err := filepath.Glob(filepath.Join(said, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no server wrote anything (%v)", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		listed := false
		for line := range bytes.Lines(data) {
			var m struct{ Result protocolResult }
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			for _, c := range m.Result.Content {
				results += tokens.Count(c.Text)
			}
			if !listed && m.Result.Tools != nil {
				definitions, listed = definitions+m.Result.told(t), true
			}
		}
	}
	return definitions, results
}

// protocolResult is the part of a result that a model receives.
type protocolResult struct {
	Content []struct{ Text string }
	Tools   []struct {
		Name, Description string
		InputSchema       json.RawMessage
	}
}

func (s protocolResult) told(t *testing.T) (n int) {
	for _, d := range s.Tools {
		n += tokens.Count(d.Name + "\n" + d.Description + "\n" + string(d.InputSchema))
	}
	return n
}

// codeModeTokens runs an example in the lean profile, compares the result with result.json,
// in which tokens have no ids, and counts the tokens.
func codeModeTokens(t *testing.T, file string) int {
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ask, stop := serveLean(t)
	list := ask("tools/list", map[string]any{})
	answer := ask("tools/call", map[string]any{"name": "execute_code", "arguments": map[string]any{"code": string(code)}}).Content[0].Text
	stop() // also stops the recording servers
	var got struct{ Result any }
	plain := token.ReplaceAllStringFunc(answer, func(t string) string { return t[:strings.LastIndex(t, "_")] + "_…]" })
	if err := json.Unmarshal([]byte(plain), &got); err != nil || got.Result == nil {
		t.Fatalf("%s, %v", answer, err)
	}
	golden := "result.json"
	var want any
	if data, err := os.ReadFile(golden); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(data, &want); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, got.Result); d != "" {
		t.Errorf("the result is %s\n(-want +got):\n%s", answer, d)
	}
	tools, rest := list.told(t), tokens.Count(string(code))+tokens.Count(answer)
	t.Logf("tokens here: %d (list of tools) + %d (code and answer)", tools, rest)
	return tools + rest
}

// serveLean serves the configuration in the working directory. It returns a function for
// requests and one that stops the daemon.
func serveLean(t *testing.T) (ask func(method string, params any) protocolResult, stop func()) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan string, 1)
	go func() {
		var errs strings.Builder
		code := run(context.WithoutCancel(t.Context()), all.Features(), []string{"serve", "--profile", "lean"}, inR, outW, &errs)
		outW.Close()
		ended <- fmt.Sprintf("serve ended with %d: %s", code, errs.String())
	}()
	stop = sync.OnceFunc(func() {
		inW.Close()
		if end := <-ended; !strings.HasPrefix(end, "serve ended with 0") {
			t.Error(end)
		}
	})
	t.Cleanup(stop)
	ask = asker(t, inW, bufio.NewReader(outR))
	ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}})
	if _, err := io.WriteString(inW, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return ask, stop
}

// asker sends requests one by one.
func asker(t *testing.T, in io.Writer, lines *bufio.Reader) func(method string, params any) protocolResult {
	id := 0
	return func(method string, params any) protocolResult {
		id++
		request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(append(request, '\n')); err != nil {
			t.Fatal(err)
		}
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatalf("after %s: %v", method, err)
			}
			var m struct {
				ID     int
				Result protocolResult
			}
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			if m.ID == id {
				return m.Result
			}
		}
	}
}
