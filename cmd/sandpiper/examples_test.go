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

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// The examples with servers, and how many times less than a direct client they
// spend: somewhat under what was measured, which their READMEs have.
var examples = []struct {
	name  string
	setup bool // there is a setup.py to run before
	times float64
}{
	{"chain", false, 6.5},
	{"filter", true, 280},
	{"errors", false, 4},
	{"crm", false, 600},
}

// A direct client lists all tools of the servers and sees every result; a client
// of ours sees our list of tools, the code and its answer. Arguments that the
// direct client's model would have to write are not counted.
func TestExamplesSaveTokens(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("examples run in the sandbox, which needs Linux")
	}
	needSandbox(t)
	servers := exampleServers(t)
	for _, e := range longtest.Rows(examples, 1, 3) {
		t.Run(e.name, func(t *testing.T) {
			dir, said := t.TempDir(), t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "examples", e.name))); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			t.Setenv("SANDPIPER_CONFIG", "sandpiper.yaml") // its policy allows what is asked for without it
			if e.setup {
				t.Setenv("XDG_DATA_HOME", t.TempDir())
				t.Setenv("SERVERS", servers)
				setUp(t)
			}
			t.Setenv("XDG_DATA_HOME", t.TempDir())
			t.Setenv("SERVERS", overheard(t, servers, said))
			here := inCodeMode(t, e.name)
			definitions, results := direct(t, said)
			saved := float64(definitions+results) / float64(here)
			t.Logf("tokens direct: %d (%d definitions + %d results); tokens here: %d; %.1f times fewer", definitions+results, definitions, results, here, saved)
			if saved < e.times {
				t.Errorf("direct costs %.1f times what it does here; it was at least %.1f times", saved, e.times)
			}
		})
	}
}

func setUp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"exec", "setup.py"}, strings.NewReader(""), &out, &errs); code != exitOK {
		t.Fatalf("setup.py ended with %d: %s", code, errs.String())
	}
}

// overheard returns a directory with the servers, each of which writes what it
// says to its client into a file of said as well.
func overheard(t *testing.T, servers, said string) string {
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

// direct counts what a client of the servers would have been told.
func direct(t *testing.T, said string) (definitions, results int) {
	files, err := filepath.Glob(filepath.Join(said, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no server said anything (%v)", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		listed := false
		for line := range bytes.Lines(data) {
			var m struct{ Result spoken }
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			for _, c := range m.Result.Content {
				results += countTokens(t, c.Text)
			}
			if !listed && m.Result.Tools != nil {
				definitions, listed = definitions+m.Result.told(t), true
			}
		}
	}
	return definitions, results
}

// spoken is a result of the protocol, as far as a model is told of it.
type spoken struct {
	Content []struct{ Text string }
	Tools   []struct {
		Name, Description string
		InputSchema       json.RawMessage
	}
}

func (s spoken) told(t *testing.T) (n int) {
	for _, d := range s.Tools {
		n += countTokens(t, d.Name+"\n"+d.Description+"\n"+string(d.InputSchema))
	}
	return n
}

func countTokens(t *testing.T, text string) int {
	n, err := tokens.Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inCodeMode runs an example as a client in the lean profile does, compares the
// result with result.json, where tokens have no ids, and counts.
func inCodeMode(t *testing.T, name string) int {
	code, err := os.ReadFile(name + ".py")
	if err != nil {
		t.Fatal(err)
	}
	ask, stop := serveLean(t)
	list := ask("tools/list", map[string]any{})
	answer := ask("tools/call", map[string]any{"name": "execute_code", "arguments": map[string]any{"code": string(code)}}).Content[0].Text
	stop() // and with it those who write down what servers say
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
	tools, rest := list.told(t), countTokens(t, string(code))+countTokens(t, answer)
	t.Logf("tokens here: %d (list of tools) + %d (code and answer)", tools, rest)
	return tools + rest
}

// serveLean serves this directory's configuration, and returns how to ask and how
// to end it.
func serveLean(t *testing.T) (ask func(method string, params any) spoken, stop func()) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan string, 1)
	go func() {
		var errs strings.Builder
		code := run(context.WithoutCancel(t.Context()), []string{"serve", "--profile", "lean"}, inR, outW, &errs)
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
	ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"}})
	if _, err := io.WriteString(inW, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return ask, stop
}

// asker asks one question after the other.
func asker(t *testing.T, in io.Writer, lines *bufio.Reader) func(method string, params any) spoken {
	id := 0
	return func(method string, params any) spoken {
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
				Result spoken
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
