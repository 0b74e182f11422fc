package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// home is the database and the projection of one tenant.
type home struct {
	*session.Log
	db  *store.DB
	dir string
}

func newHome(t *testing.T, cfg session.Config) *home {
	return openHome(t, t.TempDir(), cfg)
}

// openHome opens a home in dir. Another process may have opened it too.
func openHome(t testing.TB, dir string, cfg session.Config) *home {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, "tenant.db"), []store.Migration{
		{Number: 1, Name: "sessions", SQL: session.Tables},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &home{db: db, dir: filepath.Join(dir, "view")}
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg.DB, cfg.Customer, cfg.Projection, cfg.Lock = db, "user_12345", h.dir, filepath.Join(dir, "lock")
	cfg.Key = bytes.Repeat([]byte{7}, 32)
	if h.Log, err = session.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *home) append(t *testing.T, id string, s session.Step) int {
	t.Helper()
	if s.Began.IsZero() {
		s.Began = time.Now()
	}
	key, err := h.Append(t.Context(), id, s)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := h.Replay(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.Key == key {
			return s.Number
		}
	}
	t.Fatalf("the step is not in session %s", id)
	return 0
}

func (h *home) find(t *testing.T, id string) session.Session {
	t.Helper()
	s, err := h.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// files returns the projected files.
func (h *home) files(t *testing.T) []string {
	t.Helper()
	if err := h.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (h *home) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestJSONFormat(t *testing.T) {
	h := newHome(t, session.Config{})
	began := time.Date(2026, 11, 16, 10, 0, 15, 0, time.UTC)
	h.append(t, "session_001", session.Step{
		Description: "Calculate 5 + 3", Code: "5.0 + 3", Result: "8.0", Output: "<&>", Began: began,
		Files: []string{"/workspace/state/results.json", "/workspace/state/context.json"},
	})
	if _, err := h.Checkpoint(t.Context(), "session_001", 0, json.RawMessage(`3`),
		json.RawMessage(`"Working on data analysis"`)); err != nil {
		t.Fatal(err)
	}
	if got, want := h.files(t), []string{"current_session.json", "session_001.json"}; !cmp.Equal(got, want) {
		t.Fatalf("projection contains %q, want %q", got, want)
	}
	text := h.file(t, "session_001.json")
	if text != h.file(t, "current_session.json") {
		t.Error("the current session differs")
	}
	s := h.find(t, "session_001")
	want := fmt.Sprintf(`{
  "session_id": "session_001",
  "customer_uid": "user_12345",
  "started_at": "2026-11-16T10:00:15Z",
  "ended_at": %q,
  "tasks": [
    {
      "task_id": "task_001",
      "description": "Calculate 5 + 3",
      "code": "5.0 + 3",
      "result": "8.0",
      "output": "<&>",
      "timestamp": "2026-11-16T10:00:15Z"
    }
  ],
  "state_files": [
    "/workspace/state/context.json",
    "/workspace/state/results.json"
  ],
  "checkpoint": {
    "step": 3,
    "last_task": "task_002",
    "context": "Working on data analysis",
    "timestamp": %q
  }
}
`, s.Ended.Format(time.RFC3339Nano), s.Checkpoint.Timestamp.Format(time.RFC3339Nano))
	if d := cmp.Diff(want, text); d != "" {
		t.Error(d)
	}
}

func TestEmptySessionHasEmptyLists(t *testing.T) {
	h := newHome(t, session.Config{})
	if _, err := h.Checkpoint(t.Context(), "a", 0, json.RawMessage(`"begin"`), json.RawMessage(`null`)); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(h.find(t, "a"))
	if err != nil || !strings.Contains(string(b), `"tasks":[],"state_files":[]`) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestReplayReturnsSteps(t *testing.T) {
	h := newHome(t, session.Config{})
	h.append(t, "a", session.Step{Code: "x", Vars: json.RawMessage(`{"x":1}`), Result: "1"})
	h.append(t, "a", session.Step{Code: "while True: pass", InterpreterLost: true, Result: "error: timed out"})
	h.append(t, "a", session.Step{Code: "big", Vars: json.RawMessage(`{"x":"` + strings.Repeat("x", 300<<10) + `"}`)})
	steps, err := h.Replay(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	type brief struct {
		ID, Code, Vars string
		Lost, VarsLost bool
	}
	var got []brief
	for _, s := range steps {
		got = append(got, brief{s.ID(), s.Code, string(s.Vars), s.InterpreterLost, s.VarsLost})
	}
	want := []brief{{"task_001", "x", `{"x":1}`, false, false}, {"task_002", "while True: pass", "", true, false},
		{"task_003", "big", "", false, true}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCheckpointNumberIsReserved(t *testing.T) {
	h := newHome(t, session.Config{})
	h.append(t, "a", session.Step{Code: "first"})
	number, err := h.Checkpoint(t.Context(), "a", 0, json.RawMessage(`1`), json.RawMessage(`{}`))
	if err != nil || number != 2 {
		t.Fatal(number, err)
	}
	if again, err := h.Checkpoint(t.Context(), "a", number, json.RawMessage(`"2b"`), json.RawMessage(`[]`)); err != nil || again != 2 {
		t.Error(again, err)
	}
	// another process, which does not know that step
	if n := h.append(t, "a", session.Step{Code: "third"}); n != 3 {
		t.Errorf("another process got number %d", n)
	}
	if n := h.append(t, "a", session.Step{Number: number, Code: "second"}); n != 2 {
		t.Errorf("the step became %d", n)
	}
	if n := h.append(t, "a", session.Step{Code: "fourth"}); n != 4 {
		t.Errorf("the next step became %d", n)
	}
	s := h.find(t, "a")
	var codes []string
	for _, task := range s.Tasks {
		codes = append(codes, task.Code)
	}
	if want := []string{"first", "second", "third", "fourth"}; !cmp.Equal(codes, want) || s.Checkpoint.LastTask != "task_002" ||
		string(s.Checkpoint.Step) != `"2b"` {
		t.Errorf("%q, checkpoint %+v", codes, s.Checkpoint)
	}
}

func TestInvalidIDsAreRejected(t *testing.T) {
	h := newHome(t, session.Config{})
	for _, id := range []string{"", ".", "..", ".a", "a/b", "../a", "a b", "ä", "a\x00", "a\n", strings.Repeat("a", 65), "current_session",
		"Current_Session"} {
		_, err := h.Append(t.Context(), id, session.Step{Code: "1", Began: time.Now()})
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("Append took %q: %v", id, err)
		}
		if _, err := h.Find(t.Context(), id); fault.KindOf(err) != fault.Invalid {
			t.Errorf("Find took %q: %v", id, err)
		}
		if _, err := h.Checkpoint(t.Context(), id, 0, json.RawMessage("1"), json.RawMessage("1")); fault.KindOf(err) != fault.Invalid {
			t.Errorf("Checkpoint took %q: %v", id, err)
		}
	}
	for _, id := range []string{"a", "-", "_", "A.b-c_1", strings.Repeat("a", 64), "a..b"} {
		h.append(t, id, session.Step{Code: "1"})
	}
}

func TestInvalidCheckpointsAreRejected(t *testing.T) {
	h := newHome(t, session.Config{})
	for _, c := range []struct{ step, about string }{
		{`[1]`, `1`}, {`null`, `1`}, {`true`, `1`}, {``, `1`}, {`"` + strings.Repeat("x", 300) + `"`, `1`}, {`1`, ``}, {`1`, `{`},
		{`1`, `"` + strings.Repeat("x", 70<<10) + `"`},
	} {
		if _, err := h.Checkpoint(t.Context(), "a", 0, json.RawMessage(c.step), json.RawMessage(c.about)); err == nil {
			t.Errorf("step %.20s, context %.20s: not refused", c.step, c.about)
		}
	}
	if began, err := h.Exists(t.Context(), "a"); began || err != nil {
		t.Errorf("a refused checkpoint began a session: %v, %v", began, err)
	}
}

func TestNotFoundListsSessions(t *testing.T) {
	h := newHome(t, session.Config{})
	_, err := h.Find(t.Context(), "a")
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(fault.Hint(err), "no session has begun") {
		t.Error(err, fault.Hint(err))
	}
	h.append(t, "one", session.Step{Code: "1"})
	h.append(t, "two", session.Step{Code: "1"})
	if _, err = h.Replay(t.Context(), "a"); fault.KindOf(err) != fault.NotFound || !strings.HasSuffix(fault.Hint(err), "two, one") {
		t.Error(err, fault.Hint(err))
	}
}

func TestOldestStepsAreDeleted(t *testing.T) {
	h := newHome(t, session.Config{Steps: 20})
	for i := range 100 {
		if n := h.append(t, "a", session.Step{Code: fmt.Sprint("step ", i+1)}); n != i+1 {
			t.Fatalf("step %d got number %d", i+1, n)
		}
		tasks := h.find(t, "a").Tasks
		last, first := tasks[len(tasks)-1], tasks[0]
		if len(tasks) > 20 || i > 20 && len(tasks) < 15 || last.Code != fmt.Sprint("step ", i+1) || first.ID != fmt.Sprintf("task_%03d",
			i+2-len(tasks)) {
			t.Fatalf("after %d: %d tasks from %s to %q", i+1, len(tasks), first.ID, last.Code)
		}
	}
	if list, err := h.List(t.Context()); err != nil || list[0].Tasks > 20 {
		t.Errorf("listed as %+v, %v", list, err)
	}
}

func TestSessionByteLimit(t *testing.T) {
	h := newHome(t, session.Config{StepBytes: 100_000})
	for i := range 30 {
		h.append(t, "a", session.Step{Code: strings.Repeat("x", 9_000), Output: fmt.Sprint(i)})
		size := 0
		for _, task := range h.find(t, "a").Tasks {
			size += len(task.Code)
		}
		if size > 100_000 || i > 12 && size < 50_000 {
			t.Fatalf("after %d steps it holds %d bytes", i+1, size)
		}
	}
	// a single step above the limit is kept: the model has just received its answer
	h.append(t, "a", session.Step{Code: strings.Repeat("y", 200_000)})
	if tasks := h.find(t, "a").Tasks; len(tasks) != 1 || tasks[0].Code[0] != 'y' {
		t.Errorf("%d tasks are left", len(tasks))
	}
}

func TestLeastRecentSessionsAreDeleted(t *testing.T) {
	h := newHome(t, session.Config{Sessions: 3})
	for _, id := range []string{"a", "b", "c", "a", "d", "e"} {
		h.append(t, id, session.Step{Code: "1", Files: []string{"/workspace/state/" + id}})
	}
	if got, want := h.files(t), []string{"a.json", "current_session.json", "d.json", "e.json"}; !cmp.Equal(got, want) {
		t.Errorf("projection contains %q, want %q", got, want)
	}
	if n := h.append(t, "b", session.Step{Code: "2"}); n != 1 {
		t.Errorf("the first step of the new session has number %d", n)
	}
	if s := h.find(t, "b"); len(s.Tasks) != 1 || len(s.StateFiles) != 0 {
		t.Errorf("data of the old session is left: %+v", s)
	}
}

func TestTotalByteLimit(t *testing.T) {
	h := newHome(t, session.Config{MaxBytes: 300_000})
	for i := range 40 {
		h.append(t, fmt.Sprint("s", i%10), session.Step{Code: strings.Repeat("x", 20_000)})
		size := 0
		list, err := h.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			size += s.Tasks * 20_000
		}
		if size > 320_000 || i > 15 && size < 200_000 {
			t.Fatalf("after %d steps all hold %d bytes", i+1, size)
		}
	}
}

func TestLongTextsAreTruncated(t *testing.T) {
	h := newHome(t, session.Config{})
	h.append(t, "a", session.Step{Code: "1", Output: strings.Repeat("é", 60_000), Result: `"` + strings.Repeat("x", 100_000) + `"`})
	task := h.find(t, "a").Tasks[0]
	for _, text := range []string{task.Output, task.Result} {
		if len(text) > 70_000 || !strings.HasSuffix(text, "(truncated)") || strings.Contains(text, "\ufffd") {
			t.Errorf("%d bytes, ends in %q", len(text), text[len(text)-40:])
		}
	}
}

func TestProjectionIsUpdatedInBackgroundAndOnClose(t *testing.T) {
	dir := t.TempDir()
	h := openHome(t, dir, session.Config{})
	h.append(t, "a", session.Step{Code: "early"})
	for { // the test's own time limit ends this
		if b, err := os.ReadFile(filepath.Join(h.dir, "a.json")); err == nil && strings.Contains(string(b), "early") {
			break
		}
	}
	h.append(t, "a", session.Step{Code: "late"})
	if err := errors.Join(h.Close(), h.Close()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(h.file(t, "a.json"), "late") {
		t.Error("after Close the projection lacks the last step")
	}
}

// The projection is repaired after a crash or a manual change.
func TestProjectionIsRepaired(t *testing.T) {
	dir := t.TempDir()
	h := openHome(t, dir, session.Config{})
	h.append(t, "a", session.Step{Code: "1"})
	h.append(t, "b", session.Step{Code: "1"})
	good := h.files(t)
	for name, damage := range map[string]func() error{
		"a file too many": func() error { return os.WriteFile(filepath.Join(h.dir, "x.json"), nil, 0o600) },
		"a half file":     func() error { return os.WriteFile(filepath.Join(h.dir, ".new-1"), nil, 0o600) },
		"an old file":     func() error { return os.WriteFile(filepath.Join(h.dir, "a.json"), []byte("old"), 0o600) },
		"a directory": func() error {
			return errors.Join(os.Remove(filepath.Join(h.dir, "b.json")), os.MkdirAll(filepath.Join(h.dir, "b.json", "c"), 0o700))
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		fresh := openHome(t, dir, session.Config{}) // as after a restart of the daemon
		if got := fresh.files(t); !slices.Equal(got, good) || !strings.Contains(fresh.file(t, "a.json"), `"task_001"`) {
			t.Errorf("%s: projection contains %q", name, got)
		}
	}
}

func TestSessionsAreIsolatedByTenant(t *testing.T) {
	a, b := newHome(t, session.Config{}), newHome(t, session.Config{})
	a.append(t, "same", session.Step{Code: "of a"})
	if began, err := b.Exists(t.Context(), "same"); began || err != nil {
		t.Errorf("began %v, %v", began, err)
	}
	b.append(t, "same", session.Step{Code: "of b"})
	if s := a.find(t, "same"); len(s.Tasks) != 1 || s.Tasks[0].Code != "of a" {
		t.Errorf("%+v", s)
	}
	if b.files(t); strings.Contains(b.file(t, "same.json"), "of a") {
		t.Error("the projection of one tenant contains the log of the other")
	}
}

// TestProcessesAppendConcurrently checks that every step is stored with a unique number and that the
// projection is complete at the end.
func TestProcessesAppendConcurrently(t *testing.T) {
	dir := t.TempDir()
	homes := []*home{openHome(t, dir, session.Config{}), openHome(t, dir, session.Config{}), openHome(t, dir, session.Config{})}
	var all sync.WaitGroup
	for i, h := range homes {
		all.Go(func() {
			for j := range 20 {
				if _, err := h.Append(t.Context(), "a", session.Step{Code: fmt.Sprintf("%d of %d", j, i), Began: time.Now()}); err != nil {
					t.Error(err)
				}
				if err := h.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s := homes[0].find(t, "a")
	for i, task := range s.Tasks {
		if task.ID != fmt.Sprintf("task_%03d", i+1) {
			t.Errorf("place %d has %s", i+1, task.ID)
		}
	}
	homes[1].files(t)
	if n := strings.Count(homes[2].file(t, "current_session.json"), "task_id"); n != 60 || len(s.Tasks) != 60 {
		t.Errorf("%d steps in the projection, %d in the log, want 60", n, len(s.Tasks))
	}
}

// BenchmarkAppend measures the delay of every call in a session.
func BenchmarkAppend(b *testing.B) {
	h := openHome(b, b.TempDir(), session.Config{})
	step := session.Step{Code: "n + 1", Result: "2", Vars: []byte("{}"), Began: time.Now()}
	for b.Loop() {
		if _, err := h.Append(b.Context(), "bench", step); err != nil {
			b.Fatal(err)
		}
	}
}

// Each file is the session as Find returns it, however much of it comes from the caches of two
// processes: steps are deleted from it, and sessions are deleted and begun again.
func TestFilesMatchSessions(t *testing.T) {
	dir := t.TempDir()
	limits := session.Config{Steps: 8, Sessions: 2}
	processes := []*home{openHome(t, dir, limits), openHome(t, dir, limits)}
	for i := range 60 {
		h, id := processes[i%2], fmt.Sprintf("s%d", i/7%3)
		h.append(t, id, session.Step{Code: fmt.Sprintf("print('%d\n<&>')", i), Result: "\"tasks\": [],\n\xff",
			Files: []string{fmt.Sprintf("/workspace/state/%d", i)}})
		if i%5 == 0 {
			if _, err := h.Checkpoint(t.Context(), id, 0, json.RawMessage(`"\n  \"tasks\": [],\n"`), json.RawMessage(`null`)); err != nil {
				t.Fatal(err)
			}
		}
		shown := processes[i/3%2]
		if err := shown.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(shown.find(t, id)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{id + ".json", "current_session.json"} {
			if diff := cmp.Diff(want.String(), shown.file(t, name)); diff != "" {
				t.Fatalf("after step %d, %s: %s", i, name, diff)
			}
		}
	}
}
