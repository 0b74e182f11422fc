package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// TestTypeScript connects to the built program over HTTP with both releases of the
// TypeScript SDK.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	modules := wiretest.Installed(t, "@modelcontextprotocol/sdk", "@modelcontextprotocol/client")
	needSandbox(t)
	binary := build(t)
	for name, args := range map[string][]string{
		"release 1":             {"1", "legacy"},
		"release 2, 2025-11-25": {"2", "legacy"},
		"release 2, 2026-07-28": {"2", "2026-07-28"},
		"release 2, either":     {"2", "auto"},
	} {
		t.Run(name, func(t *testing.T) {
			d := startServing(t, binary, "http: {token: "+webToken+"}\n")
			out, _ := modules.Run(t, d.home, script(t, d.home, modules, "typescript.mjs"), append(args, d.url, webToken)...)
			var came struct {
				Refused, Cancelled string
				Tools, Asked       []string
				Value              int
				Progress, Answers  json.RawMessage
			}
			if err := json.Unmarshal(out, &came); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if !strings.Contains(came.Refused, "401") {
				t.Errorf("a wrong token: %s", came.Refused)
			}
			if came.Value != 42 || !slices.Contains(came.Tools, "execute_code") {
				t.Errorf("the tools are %q, and 6 * 7 is %d", came.Tools, came.Value)
			}
			if diff := cmp.Diff(`[{"progress":1,"total":2,"message":"half"}]`, string(came.Progress)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(`[{"value":"blue"},{"value":"blue"}]`, string(came.Answers)); diff != "" || len(came.Asked) != 2 {
				t.Errorf("asked %q; answers (-want +got):\n%s", came.Asked, diff)
			}
			if !strings.Contains(came.Cancelled, "enough") {
				t.Errorf("cancelled: %s", came.Cancelled)
			}
			file, err := os.OpenFile(filepath.Join(d.workspace("local"), "held"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			awaitUnlock(t, file)
		})
	}
}

// script copies a script to a directory in which it finds the modules.
func script(t *testing.T, home string, modules wiretest.Modules, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "clients", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "client.mjs")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(string(modules), filepath.Join(home, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTypeScriptTasks drives background executions with release 2 of the TypeScript SDK.
func TestTypeScriptTasks(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	modules := wiretest.Installed(t, "@modelcontextprotocol/client")
	needSandbox(t)
	d := startServing(t, build(t), "profile: full\nhttp: {token: "+webToken+"}\n")
	out, _ := modules.Run(t, d.home, script(t, d.home, modules, "typescript_tasks.mjs"), d.url, webToken)
	const want = `{"asked":["The code that is running asks: Which ` +
		`colour?"],"result":["blue",null],"cancelled":"cancelled","unknown":-32602,"call":"Unsupported result type 'task' for tools/call"}`
	if diff := cmp.Diff(want, strings.TrimSpace(string(out))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// pythonSDK returns the interpreter of the virtual environment python-sdk, next to the modules, with the
// Python SDK.
func pythonSDK(t *testing.T) string {
	t.Helper()
	python := filepath.Join(filepath.Dir(string(wiretest.Installed(t))), "python-sdk", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("REQUIRE_CLIENTS") != "" {
			t.Fatalf("the Python SDK is needed, and REQUIRE_CLIENTS is set: %v", err)
		}
		t.Skip(err)
	}
	return python
}

// runPython runs a client of testdata and returns what it prints.
func runPython(t *testing.T, python, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, append([]string{filepath.Join("testdata", "clients", name)}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// TestPythonTasks drives background executions, and calls that are answered by a task, with the
// Python SDK.
func TestPythonTasks(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	python := pythonSDK(t)
	needSandbox(t)
	d := startServing(t, build(t), "profile: full\nhttp: {token: "+webToken+"}\n")
	out := runPython(t, python, "python_tasks.py", d.url, webToken)
	const want = `{"asked": ["The code that is running asks: Which colour?"], "result": ["blue", null], "cancelled": "cancelled", ` +
		`"unknown": -32602, "call": "late", "tasks": ["working"]}`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPythonResumes loses the stream of a call after its first event. The Python SDK resumes it
// with the id in that event, and logs nothing about any event.
func TestPythonResumes(t *testing.T) {
	t.Parallel()
	python := pythonSDK(t)
	needSandbox(t)
	d := startServing(t, build(t), "http: {token: "+webToken+"}\n")
	target, err := url.Parse("http://" + d.addr)
	if err != nil {
		t.Fatal(err)
	}
	var lost, resumed atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-Id") != "" {
			resumed.Add(1)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("time.sleep")) {
			proxy.ServeHTTP(w, r)
			return
		}
		lost.Add(1)
		proxy.ServeHTTP(&firstEventOnly{ResponseWriter: w}, r)
	}))
	defer front.Close()
	out := runPython(t, python, "python_resume.py", front.URL+"/mcp", webToken)
	if diff := cmp.Diff(`{"result": "kept", "logged": []}`, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lost.Load() != 1 || resumed.Load() == 0 {
		t.Errorf("%d streams were lost and %d resumed", lost.Load(), resumed.Load())
	}
}

// firstEventOnly aborts a response after its first event.
type firstEventOnly struct {
	http.ResponseWriter
	wrote []byte
}

// Unwrap returns the writer for http.ResponseController.
func (w *firstEventOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *firstEventOnly) Write(p []byte) (int, error) {
	w.wrote = append(w.wrote, p...)
	first, _, ended := bytes.Cut(w.wrote, []byte("\n\n"))
	if !ended {
		return len(p), nil
	}
	_, _ = w.ResponseWriter.Write(append(first, "\n\n"...))
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}
