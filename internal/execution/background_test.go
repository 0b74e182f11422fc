package execution_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// scheduler returns a scheduler that is not started.
func (s setup) scheduler() *background.Scheduler {
	return background.New(background.Config{Runner: s.Runner})
}

// runClaimed runs an execution that was claimed.
func (s setup) runClaimed(ctx context.Context, h *home.Home, e *journal.Run, w background.Writers) error {
	return background.Claim{Run: e, Home: h, Runner: s.Runner, Writers: w, Log: slog.New(slog.DiscardHandler)}.Do(ctx)
}

func dispatch(t *testing.T, s setup, h *home.Home, code string, o journal.OnRestart) string {
	t.Helper()
	id, err := s.scheduler().Dispatch(t.Context(), h, execution.StoredRequest{Request: execution.Request{Code: code}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// runDue runs the execution that is due, and returns whether there was one.
func runDue(t *testing.T, s setup, h *home.Home) bool {
	t.Helper()
	e, err := h.Runs.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		return false
	}
	if err := s.runClaimed(t.Context(), h, e, background.Writers{}); err != nil {
		t.Fatal(err)
	}
	return true
}

func entry(t *testing.T, h *home.Home, id string) (journal.Run, reply.Result) {
	t.Helper()
	e, err := h.Runs.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var r reply.Result
	if e.Result != nil {
		if err := json.Unmarshal(e.Result, &r); err != nil {
			t.Fatal(err)
		}
	}
	return e, r
}

func wait(args string) string { return `call wait {"alone":true,` + args + `}` }

func TestBackgroundExecutionWaitsForSignal(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\n"+wait(`"event":"go"`)+"\n"+callFind+"\n# wait_for", journal.ResumeOnRestart)
	if !runDue(t, s, h) || runDue(t, s, h) {
		t.Fatal("it is not due once")
	}
	if e, _ := entry(t, h, id); e.State != journal.Waiting || !e.Due.IsZero() || l.called.Load() != 1 {
		t.Fatalf("%+v", e)
	}
	if _, err := s.Resume(t.Context(), h, id); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(),
		"waits for a signal") {
		t.Errorf("it was resumed by hand: %v", err)
	}
	// another daemon, after this one was killed
	s, h = l.restart(t, nil)
	for _, event := range []string{"other", "go"} {
		if err := s.Signal(t.Context(), h, id, event, json.RawMessage(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
		if due := event == "go"; runDue(t, s, h) != due {
			t.Errorf("after signal %s it is due: %v", event, !due)
		}
	}
	e, r := entry(t, h, id)
	if e.State != journal.Ended || e.Outcome != journal.Succeeded || string(r.Value) != `{"value":{"n":2}}` || l.called.Load() != 2 {
		t.Errorf("%+v %+v after %d calls", e, r, l.called.Load())
	}
	if err := s.Signal(t.Context(), h, id, "go", nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a signal for an ended execution: %v", err)
	}
	if left := recordedRuns(t, h); len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

func TestSignalBeforeWaitIsKept(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, wait(`"event":"a"`)+"\n"+wait(`"event":"a"`)+"\n# wait_for", journal.ResumeOnRestart)
	for i := range 2 {
		if err := s.Signal(t.Context(), h, id, "a", json.RawMessage(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	runDue(t, s, h)
	if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != `{"value":1}` {
		t.Errorf("%+v %+v", e, r)
	}
}

// A failed execution can be resumed, and then receives the signals that were sent to it before.
func TestSignalsOutliveFailure(t *testing.T) {
	l := newRestarts(t)
	failing := callFind + "\ncrash"
	s, h := l.restart(t, map[string]string{"# servers, wait_for": failing})
	id := dispatch(t, s, h, "# servers, wait_for", journal.ResumeOnRestart)
	if err := s.Signal(t.Context(), h, id, "a", json.RawMessage("7")); err != nil {
		t.Fatal(err)
	}
	runDue(t, s, h)
	if e, _ := entry(t, h, id); e.Outcome != journal.Unsuccessful {
		t.Fatalf("%+v", e)
	}
	s, h = l.restart(t, map[string]string{"# servers, wait_for": callFind + "\n" + wait(`"event":"a"`)})
	if r := s.resume(t, h, id); string(r.Value) != `{"value":7}` || l.called.Load() != 1 {
		t.Errorf("%+v after %d calls", r, l.called.Load())
	}
}

func TestForegroundExecutionContinuesInBackground(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	until := time.Now().Add(1200 * time.Millisecond)
	r := s.run(t, h, callFind+"\n"+wait(fmt.Sprintf(`"until":%f`, float64(until.UnixMicro())/1e6))+"\nresult 7\n# sleep_for")
	if r.ErrorType != execution.TypeSuspended || !strings.Contains(r.Error, "waits until 20") || !strings.Contains(r.Hint, "watch") {
		t.Fatalf("%+v", r)
	}
	for !runDue(t, s, h) {
		if e, _ := entry(t, h, r.ExecutionID); e.State != journal.Waiting || e.Due.UnixMilli() != until.UnixMilli() {
			t.Fatalf("%+v", e)
		}
	}
	if e, r := entry(t, h, r.ExecutionID); e.Outcome != journal.Succeeded || string(r.Value) != "7" || time.Now().
		Before(until) || l.called.Load() != 1 {
		t.Errorf("%+v %+v", e, r)
	}
}

// A wait for some seconds ends at the time that was recorded when it began, also for code that
// waits again.
func TestWaitForSecondsKeepsItsEnd(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	began := time.Now()
	r := s.run(t, h, wait(`"for":1.5`)+"\n"+wait(`"event":"a","for":1.2`)+"\nresult 7\n# sleep_for")
	first, _ := entry(t, h, r.ExecutionID)
	if left := first.Due.Sub(began); r.ErrorType != execution.TypeSuspended || left < 1400*time.Millisecond || left > time.Minute {
		t.Fatalf("%+v %s", r, left)
	}
	s, h = l.restart(t, nil)
	for ends := time.Now().Add(time.Minute); ; runDue(t, s, h) {
		e, r := entry(t, h, r.ExecutionID)
		if e.State == journal.Ended {
			if string(r.Value) != "7" || time.Since(began) < 2600*time.Millisecond {
				t.Errorf("after %s: %+v", time.Since(began), r)
			}
			return
		}
		if time.Now().After(ends) {
			t.Fatalf("%+v", e)
		}
		if !e.Due.Equal(first.Due) && e.Due.Sub(first.Due) < time.Second {
			t.Fatalf("the wait ends at %s, and before the restart at %s", e.Due, first.Due)
		}
	}
}

// An execution that began to wait in the future, because the clock was put back since, continues at
// the recorded end of its wait.
func TestWaitAfterClockIsPutBack(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	began := time.Now()
	r := s.run(t, h, wait(`"for":2.5`)+"\nresult 7\n# sleep_for")
	if r.ErrorType != execution.TypeSuspended {
		t.Fatalf("%+v", r)
	}
	db, err := sql.Open("sqlite", filepath.Join(l.dir, "data", "private", "a", "tenant.db"))
	if err == nil {
		_, err = db.Exec("UPDATE runs SET due = due + 3600000, changed = changed + 3600000")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for ends := time.Now().Add(time.Minute); time.Now().Before(ends); runDue(t, s, h) {
		if e, r := entry(t, h, r.ExecutionID); e.State == journal.Ended {
			if string(r.Value) != "7" || time.Since(began) < 2500*time.Millisecond {
				t.Errorf("after %s: %+v", time.Since(began), r)
			}
			return
		}
	}
	e, _ := entry(t, h, r.ExecutionID)
	t.Errorf("%+v", e)
}

func TestWaitsWithoutRecordOrSenseAreRefused(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	r := done(t, s.start(t, t.Context(), h, execution.Request{Code: wait(`"event":"a"`) + "\n# wait_for", SessionID: "s"}))
	if !strings.Contains(r.Error, "a step of a session or a dry run") {
		t.Errorf("%+v", r)
	}
	for _, args := range []string{`{}`, `{"event":""}`, `{"until":-1}`, `{"until":1e300}`, `{"until":"x"}`,
		`{"event":"` + strings.Repeat("x", 801) + `"}`} {
		if r := s.run(t, h, "call wait "+args+"\n# wait_for"); r.Success() || r.ErrorType == execution.TypeSuspended {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r := s.run(t, h, wait(`"until":5`)+"\n# sleep_until"); !r.Success() {
		t.Errorf("a time in the past: %+v", r)
	}
}

// The process that runs an execution ends; several others look for work.
func TestOneProcessResumesAfterKill(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\nresult 1\n# servers", journal.ResumeOnRestart)
	reported := dispatch(t, s, h, callFind+"\nresult 1\n# servers", journal.ReportOnRestart)
	for range 2 {
		if e, err := h.Runs.Claim(t.Context()); err != nil || e == nil { // and is killed before it runs
			t.Fatal(e, err)
		}
	}
	if runDue(t, s, h) {
		t.Fatal("an execution of a live process was claimed")
	}
	l.kill(t)
	var all sync.WaitGroup
	for range 3 {
		s, h := l.restart(t, nil)
		all.Go(func() {
			for range 2 {
				if e, err := h.Runs.Claim(t.Context()); err != nil {
					t.Error(err)
				} else if e != nil {
					if err := s.runClaimed(t.Context(), h, e, background.Writers{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	_, h = l.restart(t, nil)
	if e, _ := entry(t, h, id); e.Outcome != journal.Succeeded || l.called.Load() != 1 {
		t.Errorf("%+v after %d calls", e, l.called.Load())
	}
	if e, r := entry(t, h, reported); e.Outcome != journal.Interrupted || !strings.Contains(r.Error, "Sandpiper stopped") {
		t.Errorf("%+v %+v", e, r)
	}
}

func TestStoppingDaemonLeavesExecutionToTheNext(t *testing.T) {
	l := newRestarts(t)
	entered := make(chan bool, 1)
	first := true
	l.answer = func(n int64) (tool.Result, error) {
		if first {
			first = false
			entered <- true
		}
		return tool.Result{Structured: json.RawMessage(fmt.Sprint(n))}, nil
	}
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\nsleep 1h\n# servers", journal.ResumeOnRestart)
	ended := make(chan bool)
	go func() { runDue(t, s, h); close(ended) }()
	<-entered
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(soon); err != nil {
		t.Fatal(err)
	}
	<-ended
	s, h = l.restart(t, nil)
	go func() {
		for {
			if e, err := h.Runs.Find(t.Context(), id); err != nil || e.State == journal.Running && e.Alive {
				_ = s.Cancel(t.Context(), h, id)
				return
			}
		}
	}()
	if !runDue(t, s, h) {
		t.Fatal("the next daemon has nothing to run")
	}
	if e, _ := entry(t, h, id); e.Outcome != journal.Cancelled || l.called.Load() != 1 {
		t.Errorf("%+v after %d calls", e, l.called.Load())
	}
}

func TestCancelledExecutionDoesNotRun(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	waits := dispatch(t, s, h, callFind+"\n"+wait(`"event":"a"`)+"\n# wait_for", journal.ResumeOnRestart)
	runDue(t, s, h)
	queued := dispatch(t, s, h, callFind+"\n# servers", journal.ResumeOnRestart)
	for _, id := range []string{waits, queued, waits} {
		if err := s.Cancel(t.Context(), h, id); err != nil {
			t.Fatal(err)
		}
		if e, _ := entry(t, h, id); e.Outcome != journal.Cancelled {
			t.Errorf("%+v", e)
		}
	}
	if runDue(t, s, h) || len(recordedRuns(t, h)) != 0 || l.called.Load() != 1 {
		t.Error("a cancelled execution is left")
	}
}

func TestBackgroundRejectsWrongRequests(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	for what, b := range map[string]execution.StoredRequest{
		"code is empty":                 {},
		"both code and task":            {Request: execution.Request{Code: "1"}, Task: "x"},
		"session_id":                    {Request: execution.Request{Code: "1", SessionID: "s"}},
		"dry_run":                       {Request: execution.Request{Code: "1", DryRun: true}},
		"code has 1048577 bytes":        {Request: execution.Request{Code: strings.Repeat("x", 1<<20+1)}},
		"timeout_seconds is":            {Request: execution.Request{Code: "1", Timeout: 2 * time.Hour}},
		"context_vars is [1]; it must ": {Request: execution.Request{Code: "1", Vars: json.RawMessage("[1]")}},
	} {
		if id, err := s.scheduler().Dispatch(t.Context(), h, b, journal.ResumeOnRestart); err == nil || !strings.Contains(err.Error(),
			what) {
			t.Errorf("%s: %s %v", what, id, err)
		}
	}
	id := dispatch(t, s, h, "result 1", journal.ResumeOnRestart)
	other := newHome(t, "b")
	for _, err := range []error{
		s.Signal(t.Context(), other, id, "a", nil), s.Cancel(t.Context(), other, id),
		s.Signal(t.Context(), h, "exec_x", "a", nil), s.Cancel(t.Context(), h, "exec_x"),
	} {
		if k := fault.KindOf(err); k != fault.NotFound && k != fault.Unavailable {
			t.Errorf("an unknown execution or one of another tenant: %v", err)
		}
	}
	for value, event := range map[string]string{"{": "a", "1": "", `"` + strings.Repeat("x", journal.MaxSignalBytes) + `"`: "a"} {
		if err := s.Signal(t.Context(), h, id, event, json.RawMessage(value)); err == nil {
			t.Errorf("signal %.10q %.10s", event, value)
		}
	}
	for i := range 101 {
		if err := s.Signal(t.Context(), h, id, "a", nil); (err != nil) != (i == 100) {
			t.Errorf("signal %d: %v", i, err)
		}
	}
	runDue(t, s, h)
	if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != "1" {
		t.Errorf("%+v", e)
	}
}
