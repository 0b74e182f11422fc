package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// open returns a Set that is closed when the test ends.
func open(t testing.TB, cfg upstream.Config) *upstream.Set {
	t.Helper()
	s, err := upstream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// brokenServer returns a server with the behaviour kind.
func brokenServer(t testing.TB, kind string) upstream.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return upstream.Server{Name: kind, Kind: upstream.Program{Command: exe, Env: map[string]string{"UPSTREAM_TEST_SERVER": kind}}}
}

func call(ctx context.Context, s *upstream.Set, server, name, x string) (tool.Result, error) {
	args, _ := json.Marshal(map[string]string{"x": x})
	return s.Call(ctx, tool.Call{Ref: tool.Ref{Server: server, Tool: name}, Args: args})
}

// wantEcho checks that a server works.
func wantEcho(t testing.TB, s *upstream.Set, server string) {
	t.Helper()
	if r, err := call(t.Context(), s, server, "echo", "hello"); err != nil || r.Text() != "hello" {
		t.Errorf("%s: %q %v", server, r.Text(), err)
	}
}

// wantError checks the displayed text of an error.
func wantError(t testing.TB, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", parts)
		return
	}
	shown := fault.Message(err) + " / " + fault.Hint(err)
	for _, part := range parts {
		if !strings.Contains(shown, part) {
			t.Errorf("%q does not contain %q", shown, part)
		}
	}
	if fault.KindOf(err) != kind {
		t.Errorf("%q has kind %s, want %s", shown, fault.KindOf(err), kind)
	}
}

func state(s *upstream.Set, name string) upstream.State {
	for _, st := range s.States() {
		if st.Name == name {
			return st
		}
	}
	return upstream.State{}
}

// until waits for a background event.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); !happened(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

func TestBrokenServersAreReported(t *testing.T) {
	t.Parallel()
	hangs := brokenServer(t, "hangs")
	hangs.StartTimeout = 300 * time.Millisecond
	s := open(t, upstream.Config{Servers: []upstream.Server{
		brokenServer(t, "good"), hangs, brokenServer(t, "crashes"),
		{Name: "missing", Kind: upstream.Program{Command: "no-such-program"}}, {Name: "npx",
			Kind: upstream.Program{Command: "npx", Env: map[string]string{"PATH": t.TempDir()}}},
		{Name: "forbidden", Kind: upstream.Program{Command: "/etc/passwd"}}, {Name: "talks",
			Kind: upstream.Program{Command: "/bin/echo", Args: []string{"hello"}}},
		{Name: "refused", Kind: upstream.Remote{URL: "http://127.0.0.1:1/mcp"}}, {Name: "nowhere",
			Kind: upstream.Remote{URL: "http://no-such-host.invalid/mcp"}},
	}})
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		kind fault.Kind
		says []string
	}{
		"hangs": {fault.Unavailable, []string{`server "hangs" was not ready after 300ms`}},
		"crashes": {fault.Unavailable, []string{`server "crashes" exited while starting (exit status 3); stderr: loading plugins | ` +
			`fatal: no configuration`}},
		"missing": {fault.Unavailable, []string{`server "missing" cannot be started: program "no-such-program"`, "install it"}},
		"npx": {fault.Unavailable, []string{`program "npx" not found`, "install Node.js",
			"or correct command in the entry npx of servers"}},
		"forbidden": {fault.Unavailable, []string{`server "forbidden" cannot be started: "/etc/passwd" is not executable`,
			"entry forbidden of servers"}},
		"talks":   {fault.Unavailable, []string{`server "talks" exited while starting (exit status 0)`}},
		"refused": {fault.Unavailable, []string{`server "refused" cannot be reached`, "connection refused"}},
		"nowhere": {fault.Unavailable, []string{`server "nowhere" cannot be reached: host "no-such-host.invalid" not found`}},
		"nobody":  {fault.NotFound, []string{`there is no server "nobody"; the servers are crashes, forbidden, good`}},
	} {
		all.Go(func() {
			_, err := call(t.Context(), s, name, "echo", "x")
			wantError(t, err, c.kind, c.says...)
			wantEcho(t, s, "good")
			if st := state(s, name); name != "nobody" && (st.State != upstream.Failed || !strings.HasPrefix(fault.Message(err),
				st.Reason)) {
				t.Errorf("%s is %v", name, st)
			}
		})
	}
	all.Wait()
	if st := state(s, "good"); st.State != upstream.Ready || st.PID == 0 || st.Info.Name != "bad" || st.Info.Instructions != "be kind" {
		t.Errorf("%+v", st)
	}
}

func TestCallErrors(t *testing.T) {
	hurried := brokenServer(t, "hurried")
	hurried.Timeout = 200 * time.Millisecond
	last := brokenServer(t, "writes ids last")
	s := open(t, upstream.Config{MaxResponse: 4 << 20, Servers: []upstream.Server{brokenServer(t, "good"), hurried, last}})
	for _, c := range []struct {
		server, tool string
		kind         fault.Kind
		says         []string
	}{
		{"good", "crash", fault.Unavailable, []string{`server "good" exited while calling crash (exit status 4); stderr: panic: out ` +
			`of luck`}},
		{"hurried", "hang", fault.Exhausted, []string{`server "hurried" did not respond within 200ms while calling hang`}},
		{"good", "huge", fault.Exhausted, []string{`server "good" sent a response of more than 4194304 bytes`, "less"}},
		{"writes ids last", "huge", fault.Exhausted, []string{`sent a response of more than 4194304 bytes`}},
		{"good", "broken", fault.Unavailable, []string{`server "good" sent a malformed response while calling broken`}},
	} {
		_, err := call(t.Context(), s, c.server, c.tool, "x")
		wantError(t, err, c.kind, c.says...)
		if c.server != "hurried" { // may take longer on a busy machine
			wantEcho(t, s, c.server)
		}
	}
	until(t, "the server to hear that nobody waits", func() bool {
		return strings.Contains(strings.Join(state(s, "hurried").Stderr, "\n"),
			"cancelled")
	})
}

func TestToolErrorIsFailure(t *testing.T) {
	server := brokenServer(t, "good")
	server.Kind.(upstream.Program).Env["TOKEN"] = "sesame-open"
	s := open(t, upstream.Config{Servers: []upstream.Server{server}})
	for name, want := range map[string]tool.Failure{
		"fail": {Message: "it is broken, [secret]", Data: json.RawMessage(`{"code":7}`), Answer: tool.Result{
			Parts: []tool.Part{{Kind: tool.Text, Text: "it is broken, [secret]",
				Raw: json.RawMessage(`{"type":"text","text":"it is broken, [secret]"}`)}},
			Structured: json.RawMessage(`{"code":7}`),
		}},
		"refuse": {Message: `x must not be 5: {"y":1}`, Data: json.RawMessage(`{"y":1}`)},
	} {
		want.Ref = tool.Ref{Server: "good", Tool: name}
		_, err := call(t.Context(), s, "good", name, "5")
		failure, ok := errors.AsType[*tool.Failure](err)
		if !ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, *failure); d != "" {
			t.Error(d)
		}
	}
}

func TestCancellation(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "good")}})
	wantEcho(t, s, "good")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil && !strings.Contains(strings.Join(state(s, "good").Stderr, "\n"), "hanging") {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := call(ctx, s, "good", "hang", "")
	if wantError(t, err, fault.Unavailable, `server "good" was cancelled while calling hang`); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	until(t, "the server to receive the cancellation", func() bool {
		return strings.Contains(strings.Join(state(s, "good").Stderr, "\n"),
			"cancelled")
	})
	wantEcho(t, s, "good")
}

func TestResultsAreUnchanged(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "good")}})
	r, err := call(t.Context(), s, "good", "digits", "")
	if want := `{"big":12345678901234567890123,"small":0.10,"same":1e3}`; err != nil || string(r.Structured) != want {
		t.Errorf("%s %v", r.Structured, err)
	}
	r, err = call(t.Context(), s, "good", "parts", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.Part{
		{Kind: tool.Text, Text: "a \uFFFD b"},
		{Kind: tool.Image, Data: []byte{1, 2}, MIME: "image/png"},
		{Kind: tool.Audio, Data: []byte{3}, MIME: "audio/wav"},
		{Kind: tool.Text, Text: "inside", URI: "file:///a", MIME: "text/plain"},
		{Kind: tool.Blob, Data: []byte{4}, URI: "file:///b"},
		{Kind: tool.Link, URI: "file:///c", Name: "c", Text: "elsewhere", MIME: "text/html"},
		{Kind: tool.Text, Text: `{"type":"hologram","depth":3}`, MIME: "application/json"},
	}
	var written []string
	for i := range r.Parts {
		written = append(written, string(r.Parts[i].Raw))
		r.Parts[i].Raw = nil
	}
	if d := cmp.Diff(want, r.Parts); d != "" {
		t.Error(d)
	}
	if written[0] != `{"type":"text","text":"a \ud800 b"}` || written[6] != `{"type":"hologram","depth":3}` {
		t.Errorf("written as %q", written)
	}
}

func TestProgress(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "good")}})
	last := 0.0
	_, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "good", Tool: "work"},
		Progress: func(done, total float64, message string) {
			if total != 3 || done <= last || message != fmt.Sprint("step ", done) {
				t.Errorf("after %v: got %q, %v of %v", last, message, done, total)
			}
			last = done
		}})
	if err != nil || last != 3 { // intermediate progress may be dropped, the last is not
		t.Error(err, last)
	}
}

func TestInvalidOutputIsDropped(t *testing.T) {
	var log logtest.Log
	s := open(t, upstream.Config{MaxResponse: 1 << 20, Servers: []upstream.Server{brokenServer(t, "prints"), brokenServer(t, "floods")},
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	wantEcho(t, s, "prints")
	wantEcho(t, s, "floods")
	if got := log.String(); strings.Count(got, "invalid message, which is dropped") != 1 || !strings.Contains(got, "Starting server...") ||
		len(got) > 2000 {
		t.Errorf("log: %s", got)
	}
	for _, line := range state(s, "floods").Stderr {
		if len(line) > 500 {
			t.Errorf("a line of %d bytes was logged", len(line))
		}
	}
}

func TestMessageFlood(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "good")}})
	for _, flood := range []string{"flood news", "flood asks"} {
		if _, err := call(t.Context(), s, "good", flood, ""); err != nil {
			t.Errorf("%s: %v", flood, err)
		}
	}
	wantEcho(t, s, "good")
}

func TestServerRequestsAreRefused(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "asks")}})
	if _, err := s.List(t.Context(), "asks"); err != nil {
		t.Error(err)
	}
	until(t, "four answers", func() bool { return len(state(s, "asks").Stderr) == 4 })
	for _, line := range state(s, "asks").Stderr {
		want := "-32601"
		switch {
		case strings.Contains(line, `"q1"`):
			want = `{"action":"decline"}` // it asks outside of a call
		case strings.Contains(line, `"q3"`):
			want = ": {}"
		}
		if !strings.Contains(line, want) {
			t.Error(line)
		}
	}
}

func TestFallbackToOlderProtocol(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel() // takes seconds
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "dies of news"), brokenServer(t, "ignores news")}})
	for _, name := range []string{"dies of news", "ignores news"} {
		wantEcho(t, s, name)
		if st := state(s, name); st.Info.Protocol != "2025-06-18" || !st.Info.Legacy {
			t.Errorf("%s: protocol %s, legacy %v", name, st.Info.Protocol, st.Info.Legacy)
		}
	}
}

func TestListPagination(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "lists much"), brokenServer(t, "never ends"),
		brokenServer(t, "goes in circles")}})
	l, err := s.List(t.Context(), "lists much")
	if err != nil || len(l.Tools) != 5500 || l.Tools[5499].Tool != "tool_5499" || l.Tools[0].Server != "lists much" {
		t.Errorf("%d tools: %v", len(l.Tools), err)
	}
	for _, name := range []string{"never ends", "goes in circles"} {
		_, err := s.List(t.Context(), name)
		wantError(t, err, fault.Unavailable, "sent a list that exceeds the page or size limit while listing its tools")
	}
}

func TestListDropsInvalidTools(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "lists rubbish"), brokenServer(t, "good")}})
	l, err := s.List(t.Context(), "lists rubbish")
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]string{}
	for _, d := range l.Tools {
		schemas[d.Tool] = string(d.Input)
		if d.Tool == "wordy" && (len(d.Description) > 64<<10 || d.Title != "Wordy" || d.Hints.ReadOnly == nil || !*d.Hints.ReadOnly ||
			d.Hints.Destructive != nil) {
			t.Errorf("%d %q %+v", len(d.Description), d.Title, d.Hints)
		}
	}
	want := map[string]string{"odd schema": "true", "huge schema": "true", "wordy": `{"type":"object"}`, "a.b/c -ü": "true"}
	if d := cmp.Diff(want, schemas); d != "" {
		t.Error(d)
	}
	if len(l.Notes) != 11 {
		t.Errorf("%d notes: %s", len(l.Notes), strings.Join(l.Notes, "\n"))
	}
	l, err = s.List(t.Context(), "good")
	if err != nil || l.Tools[0].Description != "says it again" ||
		string(l.Tools[0].Input) != `{"type":"object","maximum":12345678901234567890.10}` {
		t.Errorf("%+v %v", l, err)
	}
}

// TestHalfListsAreErrors lists servers that send half a list, or no list: that is not a short or an empty one.
func TestHalfListsAreErrors(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "forgets its lists"), brokenServer(t, "lists no list"),
		brokenServer(t, "good")}})
	lists := map[string]func(server string) (int, error){
		"tools": func(server string) (int, error) { l, err := s.List(t.Context(), server); return len(l.Tools), err },
		"resources": func(server string) (int, error) {
			all, err := s.ListResources(t.Context(), server)
			return len(all), err
		},
		"prompts": func(server string) (int, error) { all, err := s.ListPrompts(t.Context(), server); return len(all), err },
	}
	for of, list := range lists {
		for server, want := range map[string]string{"forgets its lists": "unknown", "lists no list": "sent a malformed response"} {
			if n, err := list(server); err == nil || !strings.Contains(fault.Message(err), want) {
				t.Errorf("%s of %s: %d, %v", of, server, n, err)
			}
		}
	}
	for _, of := range []string{"resources", "prompts"} { // not supported at all
		if n, err := lists[of]("good"); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", of, n, err)
		}
	}
}

// TestSkippedItemsAreLogged lists resources and prompts of which some cannot be used.
func TestSkippedItemsAreLogged(t *testing.T) {
	var log bytes.Buffer
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "lists rubbish")},
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	resources, err := s.ListResources(t.Context(), "lists rubbish")
	if err != nil || len(resources) != 2 || !strings.Contains(log.String(), "resources=4") {
		t.Errorf("%+v %v\n%s", resources, err, &log)
	}
	prompts, err := s.ListPrompts(t.Context(), "lists rubbish")
	if err != nil || len(prompts) != 1 || !strings.Contains(log.String(), "prompts=2") {
		t.Errorf("%+v %v\n%s", prompts, err, &log)
	}
}

func TestListChangeIsReported(t *testing.T) {
	changed := make(chan string, 10)
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "good")},
		ToolsChanged: func(_ context.Context, server string) { changed <- server }})
	if l, err := s.List(t.Context(), "good"); err != nil || len(l.Tools) != 1 {
		t.Fatal(l, err)
	}
	if _, err := call(t.Context(), s, "good", "change", ""); err != nil {
		t.Fatal(err)
	}
	if got := <-changed; got != "good" {
		t.Error(got)
	}
	if l, err := s.List(t.Context(), "good"); err != nil || len(l.Tools) != 2 {
		t.Error(l, err)
	}
}

func TestNewConnectionReportsListChange(t *testing.T) {
	changed := make(chan string, 10)
	server := brokenServer(t, "good")
	server.Idle = time.Millisecond
	s := open(t, upstream.Config{Servers: []upstream.Server{server},
		ToolsChanged: func(_ context.Context, server string) { changed <- server }})
	if _, err := s.List(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	stopped := func() {
		for state(s, "good").State != upstream.Stopped {
			time.Sleep(time.Millisecond)
		}
	}
	stopped()
	for range 2 {
		if _, err := call(t.Context(), s, "good", "echo", "x"); err != nil {
			t.Fatal(err)
		}
		if got := <-changed; got != "good" {
			t.Error(got)
		}
		stopped()
	}
	select {
	case <-changed:
		t.Error("reported twice for a connection, or for a listed one")
	default:
	}
}
