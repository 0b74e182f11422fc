package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// fakes makes the backend of a daemon that runs code in fake sandboxes.
func fakes(context.Context) (sandbox.Backend, error) { return fake.New(fake.Config{}), nil }

func start(t *testing.T, cfg daemon.Config) *daemon.Daemon {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = filepath.Join(t.TempDir(), "data")
	}
	if cfg.Version = "v1"; cfg.CacheDir == "" {
		cfg.CacheDir = t.TempDir()
	}
	if cfg.Backend == nil {
		cfg.Backend = fakes
	}
	d, err := daemon.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// run runs code for the local tenant.
func run(t *testing.T, d *daemon.Daemon, code string) reply.Result {
	t.Helper()
	home, err := d.Tenants.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Release(t.Context())
	x, err := d.Runner.Start(t.Context(), home, execution.Request{Code: code})
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := x.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Done != nil {
			return *e.Done
		}
	}
}

// session is one MCP client of a daemon.
type session struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan error
}

func serve(t *testing.T, ctx context.Context, d *daemon.Daemon) session {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := session{t, inW, bufio.NewReader(outR), make(chan error, 1)}
	go func() {
		s.ended <- d.Serve(ctx, inR, outW)
		outW.Close()
	}()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	return s
}

// ask sends one message and returns the next line that comes back.
func (s session) ask(message string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.in, message+"\n"); err != nil {
		s.t.Fatal(err)
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return line
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func call(tool, args string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

func TestInitializeDoesNotWaitForSandbox(t *testing.T) {
	ready := make(chan struct{})
	d := start(t, daemon.Config{Backend: func(ctx context.Context) (sandbox.Backend, error) {
		<-ready
		return fakes(ctx)
	}})
	s := serve(t, t.Context(), d)
	if got := s.ask(hello); !strings.Contains(got, `"serverInfo"`) {
		t.Errorf("initialize: %s", got)
	}
	if got := s.ask(call("write_workspace_file", `{"filename":"a","content":"b"}`)); !strings.Contains(got, "Written 1 bytes") {
		t.Errorf("write: %s", got)
	}
	close(ready)
	if got := s.ask(call("execute_code", `{"code":"result 7"}`)); !strings.Contains(got, `\"result\":7`) {
		t.Errorf("execute: %s", got)
	}
}

func TestDaemonWithoutSandboxRefusesExecutions(t *testing.T) {
	missing := fault.New(fault.Unavailable, "this machine cannot isolate code").WithHint("move to another")
	d := start(t, daemon.Config{Backend: func(context.Context) (sandbox.Backend, error) { return nil, missing }})
	s := serve(t, t.Context(), d)
	s.ask(hello)
	if got := s.ask(call("execute_code", `{"code":"result 7"}`)); !strings.Contains(got,
		"this machine cannot isolate code; move to another") {
		t.Errorf("execute: %s", got)
	}
	if got := s.ask(call("get_execution_stats", `{}`)); !strings.Contains(got, `\"working\":false`) || strings.Contains(got,
		"sandboxed_execution") {
		t.Errorf("stats: %s", got)
	}
	if got := s.ask(call("list_workspace_files", `{}`)); !strings.Contains(got, `\"count\":0`) {
		t.Errorf("list: %s", got)
	}
	want := sandbox.Report{Backend: "process", Layers: []sandbox.Layer{{Name: "backend", State: "failed", Required: true,
		Detail: "this machine cannot isolate code", Remedy: "move to another"}}}
	if diff := cmp.Diff(want, daemon.Probe(t.Context(), d)); diff != "" {
		t.Error(diff)
	}
}

func TestDaemonsShareADataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	one := start(t, daemon.Config{Config: config.Config{DataDir: dir}})
	two := start(t, daemon.Config{Config: config.Config{DataDir: dir}})
	a, b := serve(t, t.Context(), one), serve(t, t.Context(), two)
	a.ask(hello)
	b.ask(hello)
	a.ask(call("write_workspace_file", `{"filename":"shared.txt","content":"from one"}`))
	if got := b.ask(call("read_workspace_file", `{"filename":"shared.txt"}`)); !strings.Contains(got, "from one") {
		t.Errorf("two reads: %s", got)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if got := b.ask(call("execute_code", `{"code":"result 7"}`)); !strings.Contains(got, `\"result\":7`) {
		t.Errorf("two, after one was closed: %s", got)
	}
}

func TestCloseEndsExecutions(t *testing.T) {
	t.Parallel()
	d := start(t, daemon.Config{})
	ctx, stop := context.WithCancel(t.Context())
	s := serve(t, ctx, d)
	s.ask(hello)
	note := s.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","_meta":{"progressToken":1},"arguments":{"code":"call progress {\"done\":1}\nsleep 1h"}}}`)
	if !strings.Contains(note, "notifications/progress") {
		t.Fatalf("got %s", note)
	}
	stop()
	if got, err := s.out.ReadString('\n'); err != nil || !strings.Contains(got, "cancelled") {
		t.Errorf("the call got %q, %v", got, err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := d.Tenants.Acquire(t.Context(), tenant.Local); err == nil {
		t.Error("a home was opened after Close")
	}
}

func TestOutputIsStreamed(t *testing.T) {
	var shown []string
	d := start(t, daemon.Config{Output: func(item []byte) { shown = append(shown, string(item)) }})
	res := run(t, d, "print one\nprint two\nresult 3")
	if diff := cmp.Diff([]string{"one", "two"}, shown); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(shown, res.Output); diff != "" {
		t.Error("the result has other output", diff)
	}
}

func TestLogFileIsPrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	d := start(t, daemon.Config{Config: config.Config{Log: config.Log{File: file},
		Warnings: []string{"something is understood and has no effect"}}})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), "has no effect") {
		t.Errorf("the log holds %q, %v", data, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log is %v, %v", info.Mode(), err)
	}
}

func TestNewReleasesEverythingOnError(t *testing.T) {
	occupied := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := daemon.New(daemon.Config{Config: config.Config{DataDir: occupied, CacheDir: t.TempDir()}, Version: "v1"})
	if err == nil {
		t.Error("a data directory that is a file was taken")
	}
	_, err = daemon.New(daemon.Config{Config: config.Config{DataDir: t.TempDir(), CacheDir: t.TempDir(), Profile: "huge"}, Version: "v1"})
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("profile huge: %v", err)
	}
}
