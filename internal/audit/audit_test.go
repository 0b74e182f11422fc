package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

var key = []byte("a key of thirty-two bytes, no less")[:32]

func config(t testing.TB) audit.Config {
	return audit.Config{Dir: filepath.Join(t.TempDir(), "audit"), Key: key}
}

func open(t testing.TB, cfg audit.Config) *audit.Log {
	t.Helper()
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// write adds n lines and closes the log.
func write(t testing.TB, cfg audit.Config, n int) {
	t.Helper()
	l := open(t, cfg)
	for i := range n {
		l.AppendLater(call(fmt.Sprintf("exec_%d", i)))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func call(execution string) audit.Line {
	return audit.Line{
		Kind:      audit.ToolCall,
		Tenant:    tenant.Local,
		Execution: execution,
		Server:    "crm",
		Tool:      "send",
		Outcome:   "answered",
		Duration:  5 * time.Millisecond,
	}
}

func verify(t testing.TB, cfg audit.Config) audit.Report {
	t.Helper()
	r, err := audit.Verify(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// good verifies a log that must be whole.
func good(t testing.TB, cfg audit.Config, lines int64) {
	t.Helper()
	if r := verify(t, cfg); r.Problem != nil || r.Lines != lines || r.Seq != lines {
		t.Fatalf("want %d good lines, got %+v, %+v", lines, r, r.Problem)
	}
}

// records are the last n lines of a log.
func records(t testing.TB, cfg audit.Config, w audit.TailOptions) (all []audit.Record) {
	t.Helper()
	if err := audit.Tail(t.Context(), cfg, w, func(r audit.Record) error { all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func files(t testing.TB, cfg audit.Config) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(cfg.Dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func tenantID(t testing.TB, s string) tenant.ID {
	t.Helper()
	id, err := tenant.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRecordRoundTrip(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	lines := []audit.Line{
		{
			Kind: audit.Restore, Tenant: tenant.Local, Session: "s", Execution: "exec_1", Server: "crm", Tool: "send",
			Types: map[string]int{"EMAIL": 2, "PHONE": 1}, Tokens: []string{"[EMAIL_k7q2m9x4d3w8n5rt]"}, Destination: "crm.send",
			Decision: "allow", Outcome: "answered", Duration: 5 * time.Millisecond,
		},
		{Kind: audit.Login, Server: "<\"\n\x1b\xff&>", Outcome: "logged_in"},
		{Kind: audit.Configuration, Server: strings.Repeat("ü", 100)},
	}
	for _, line := range lines {
		if err := l.Append(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	lines[1].Server = "<\"\n\x1b\ufffd&>"
	lines[2].Server = strings.Repeat("ü", 64) + "…"
	got := records(t, cfg, audit.TailOptions{Last: 10})
	for i, r := range got {
		if r.Seq != int64(i+1) || time.Since(r.Time) > time.Hour || len(r.Hash) != 64 || i > 0 && r.Prev != got[i-1].Hash {
			t.Errorf("line %d: %+v", i+1, r)
		}
		if diff := cmp.Diff(lines[i], r.Line, cmp.Comparer(func(a, b tenant.ID) bool { return a == b }),
			cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	good(t, cfg, 3)
}

func TestAppendRejectsFieldsThatCouldHoldValues(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	for name, line := range map[string]audit.Line{
		"no kind":            {},
		"a kind of the log":  {Kind: audit.Recovery},
		"another kind":       {Kind: "jane@example.com"},
		"a sentence":         {Kind: audit.Execution, Outcome: "jane@example.com is wrong"},
		"a decision":         {Kind: audit.Decision, Decision: "Allow it"},
		"a value":            {Kind: audit.Restore, Tokens: []string{"jane@example.com"}},
		"a token and more":   {Kind: audit.Restore, Tokens: []string{"[EMAIL_k7q2m9x4d3w8n5rt] jane@example.com"}},
		"a foreign token":    {Kind: audit.Restore, Tokens: []string{"[~EMAIL_k7q2m9x4d3w8n5rt]"}},
		"another alphabet":   {Kind: audit.Restore, Tokens: []string{"[EMAIL_iiiiiiiiiiiiiiii]"}},
		"a value for a type": {Kind: audit.Restore, Types: map[string]int{"jane@example.com": 1}},
	} {
		err := l.Append(t.Context(), line)
		if fault.KindOf(err) != fault.Invalid || strings.Contains(fmt.Sprint(err), "jane") && name != "another kind" {
			t.Errorf("%s: %v", name, err)
		}
		l.AppendLater(line)
	}
	good(t, cfg, 0)
}

func TestManyTokensAreSplitOverLines(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	line := audit.Line{Kind: audit.Restore, Types: map[string]int{"EMAIL": 2500}}
	for i := range 2500 {
		line.Tokens = append(line.Tokens, fmt.Sprintf("[EMAIL_%016d]", i))
	}
	if err := l.Append(t.Context(), line); err != nil {
		t.Fatal(err)
	}
	good(t, cfg, 3)
	var all []string
	types := 0
	for _, r := range records(t, cfg, audit.TailOptions{Last: 3}) {
		all = append(all, r.Tokens...)
		types += r.Types["EMAIL"]
	}
	if !cmp.Equal(all, line.Tokens) || types != 2500 {
		t.Errorf("%d tokens, %d counted", len(all), types)
	}
}

func TestChainContinuesOverFiles(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 2000
	write(t, cfg, 1)
	for range 3 {
		l := open(t, cfg)
		for i := range 10 {
			if err := l.Append(t.Context(), call(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	good(t, cfg, 31)
	all := files(t, cfg)
	for _, path := range append(all, filepath.Join(cfg.Dir, "head")) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Size() > 2000 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if info, err := os.Stat(cfg.Dir); err != nil || info.Mode().Perm() != 0o700 || len(all) < 5 {
		t.Errorf("%v, %v, %d files", info, err, len(all))
	}
	got := records(t, cfg, audit.TailOptions{Last: 25})
	if len(got) != 25 || got[0].Seq != 7 || got[24].Seq != 31 {
		t.Errorf("the last 25 lines are %d, from %d", len(got), got[0].Seq)
	}
}

func TestTailFiltersByTenant(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 1000
	l := open(t, cfg)
	for i := range 20 {
		line := call(`","tenant":"ben","`) // a name that would like to be another's
		line.Tenant = tenantID(t, []string{"ann", "ben"}[i%2])
		if err := l.Append(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ann", "ben"} {
		got := records(t, cfg, audit.TailOptions{Last: 7, Tenant: tenantID(t, name)})
		if len(got) != 7 {
			t.Errorf("%s has %d lines", name, len(got))
		}
		for _, r := range got {
			if r.Tenant.String() != name {
				t.Errorf("%s is told of %s", name, r.Tenant)
			}
		}
	}
	if got := records(t, cfg, audit.TailOptions{Last: 7, Tenant: tenantID(t, "eve")}); len(got) != 0 {
		t.Errorf("eve is told of %+v", got)
	}
}

func TestAppendLaterWritesWithoutAppend(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	l.AppendLater(call("1"))
	l.AppendLater(call("2"))
	for len(records(t, cfg, audit.TailOptions{Last: 3})) < 2 {
		if t.Context().Err() != nil {
			t.Fatal("they never came")
		}
	}
	if err := l.Append(t.Context(), call("3")); err != nil {
		t.Fatal(err)
	}
	good(t, cfg, 3)
}

func TestAppendLaterWritesWithinASecond(t *testing.T) {
	cfg := config(t)
	synctest.Test(t, func(t *testing.T) {
		l, err := audit.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l.AppendLater(call("1"))
		time.Sleep(time.Second) // of synctest's clock
		synctest.Wait()
		good(t, cfg, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestConcurrentAppends(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 4000
	logs := []*audit.Log{open(t, cfg), open(t, cfg)} // as of two daemons
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for j := range 10 {
				l := logs[(i+j)%2]
				l.AppendLater(call(fmt.Sprint(i)))
				if err := l.Append(t.Context(), call(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, l := range logs {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	good(t, cfg, 200)
}

func TestCancelledAppendStillWritesLine(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // either way is taken
		if err := l.Append(ctx, call("1")); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	good(t, cfg, 20)
}

func TestClosedLogRejectsLines(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	l.AppendLater(call("1"))
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Append(t.Context(), call("2")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
	l.AppendLater(call("3"))
	good(t, cfg, 1)
}

func TestMovedDirectoryIsCreatedAgain(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	for range 2 {
		for range 3 {
			if err := l.Append(t.Context(), call("1")); err != nil {
				t.Fatal(err)
			}
		}
		good(t, cfg, 3)
		if err := os.Rename(cfg.Dir, filepath.Join(t.TempDir(), "old")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTailFollows(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 1000
	write(t, cfg, 3)
	l := open(t, cfg)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	next := int64(2)
	err := audit.Tail(ctx, cfg, audit.TailOptions{Last: 2, Follow: true}, func(r audit.Record) error {
		if r.Seq != next {
			t.Errorf("got line %d, want %d", r.Seq, next)
		}
		if next++; next > 12 {
			cancel(enough)
		}
		if next > 3 {
			return l.Append(t.Context(), call("more"))
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("it ended with %v", err)
	}
}

func TestTailReportsUnreadableLines(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 2)
	path := files(t, cfg)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = append(bytes.Replace(text, []byte("\n"), []byte("\nnonsense\n\n[]\n"+strings.Repeat("x", 1<<20)+"\n"), 1), `{"seq":3`...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var got []audit.Kind
	for _, r := range records(t, cfg, audit.TailOptions{Last: 9}) {
		got = append(got, r.Kind)
	}
	if want := []audit.Kind{"tool_call", "unreadable", "unreadable", "unreadable", "unreadable", "tool_call"}; !cmp.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestVerifyAndTailWithoutLog(t *testing.T) {
	cfg := config(t)
	good(t, cfg, 0)
	if got := records(t, cfg, audit.TailOptions{Last: 5}); got != nil {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []audit.Config{{}, {Dir: cfg.Dir}, {Dir: cfg.Dir, Key: key[:31]}} {
		if _, err := audit.Open(bad); err == nil {
			t.Errorf("%+v opens", bad)
		}
	}
	if err := os.WriteFile(cfg.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Open(cfg); fault.KindOf(err) != fault.Unavailable || fault.Hint(err) == "" {
		t.Errorf("on a file: %v", err)
	}
}
