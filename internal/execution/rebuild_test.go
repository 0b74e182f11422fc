package execution_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

func (s setup) rebuild(t *testing.T, h *home.Home, id string, repeatCalls bool) (*sessions.Rebuilt, error) {
	t.Helper()
	return execution.RebuildSession(t.Context(), s.Runner, h,
		execution.Rebuild{Session: id, RepeatCalls: repeatCalls,
			Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
				x, err := s.Start(ctx, h, req)
				if err != nil {
					return reply.Result{}, err
				}
				return done(t, x), nil
			}})
}

const saveFive = `call save_state {"name": "n", "value": 5, "version": null}`

func TestRebuildRepeatsNoCall(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	for _, code := range []string{"set x 5\n" + callFind + "\n" + callFind, saveFive, "raise ValueError no", "get x"} {
		s.call(t, h, "one", code)
	}
	before := l.called.Load()
	if before != 2 {
		t.Fatalf("%d calls were made", before)
	}
	s, h = l.restart(t, nil)
	b, err := s.rebuild(t, h, "one", false)
	if err != nil || b.Tasks != 4 || len(b.Differs) != 0 || len(b.Notes) != 0 {
		t.Fatalf("%+v, %v", b, err)
	}
	if n := l.called.Load(); n != before {
		t.Errorf("%d calls were repeated", n-before)
	}
	if v, err := state.Open(h).Get(t.Context(), "n"); err != nil || v.Version != 1 {
		t.Errorf("the state has version %d, %v", v.Version, err)
	}
	if r := s.call(t, h, "one", "get x"); string(r.Value) != "5" || r.Session.State != reply.SessionLive {
		t.Errorf("%+v", r)
	}
	if log, err := h.Sessions.Find(t.Context(), "one"); err != nil || len(log.Tasks) != 5 {
		t.Errorf("%d tasks are in the log, %v", len(log.Tasks), err)
	}
	if _, err := s.rebuild(t, h, "one", false); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "live interpreter") {
		t.Errorf("a live session was rebuilt: %v", err)
	}
}

// After a restart, the first call of a session gets a fresh interpreter. A rebuild gives it the
// variables of the earlier tasks, and keeps those of the later ones.
func TestRebuildOfFreshInterpreter(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	s.call(t, h, "one", "set x 5\n"+callFind)
	s.call(t, h, "one", "set y 1")
	s, h = l.restart(t, map[string]string{"late": "get x"})
	for _, code := range []string{"set y 2", "late", "set z 3"} {
		if r := s.call(t, h, "one", code); code == "set y 2" && (r.Session.State != reply.SessionRestarted ||
			!strings.Contains(r.Session.Note, "resume_session")) {
			t.Fatalf("%+v", r.Session)
		}
	}
	b, err := s.rebuild(t, h, "one", false)
	if err != nil || b.Tasks != 5 || len(b.Notes) != 0 || len(b.Differs) != 1 || b.Differs[0].Task != "task_004" {
		t.Fatalf("%+v, %v %s", b, err, fault.Hint(err))
	}
	if n := l.called.Load(); n != 1 {
		t.Errorf("%d calls were made", n)
	}
	for name, want := range map[string]string{"x": "5", "y": "2", "z": "3"} {
		if r := s.call(t, h, "one", "get "+name); string(r.Value) != want || r.Session.State != reply.SessionLive {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, err := s.rebuild(t, h, "one", false); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "live interpreter") {
		t.Errorf("an intact session was rebuilt: %v", err)
	}
	// by another process
	if _, err := h.Sessions.Append(t.Context(), "one", session.Step{Code: "set x 6", Result: "null",
		Recorded: session.Complete}); err != nil {
		t.Fatal(err)
	}
	if b, err := s.rebuild(t, h, "one", false); err != nil || b.Tasks != 9 {
		t.Errorf("a task of another process: %+v, %v", b, err)
	}
	if r := s.call(t, h, "one", "get x"); string(r.Value) != "6" {
		t.Errorf("x: %+v", r)
	}
}

// A task that failed in the fresh interpreter, and would make calls with the variables that it
// lacked, is skipped, also if that interpreter has ended too.
func TestRebuildSkipsTaskOfFreshInterpreterThatDiverges(t *testing.T) {
	t.Run("live", func(t *testing.T) { rebuildAfterDivergence(t, false) })
	t.Run("ended", func(t *testing.T) { rebuildAfterDivergence(t, true) })
}

func rebuildAfterDivergence(t *testing.T, ended bool) {
	l := newRestarts(t)
	scripts := map[string]string{"task": "raise NameError x"}
	s, h := l.restart(t, scripts)
	s.call(t, h, "one", "set x 5")
	s, h = l.restart(t, scripts)
	s.call(t, h, "one", "task")
	s.call(t, h, "one", "set y 2")
	scripts["task"] = callFind
	if ended {
		s, h = l.restart(t, scripts)
	}
	b, err := s.rebuild(t, h, "one", false)
	if err != nil || b.Tasks != 2 || len(b.Notes) != 1 || !strings.Contains(b.Notes[0],
		"task_002 ran without the variables of earlier tasks and is skipped: task_002 cannot be replayed") {
		t.Fatalf("%+v, %v", b, err)
	}
	if r := s.call(t, h, "one", "get x"); string(r.Value) != "5" || l.called.Load() != 0 {
		t.Errorf("%+v after %d calls", r, l.called.Load())
	}
	if r := s.call(t, h, "one", "get y"); string(r.Value) != "2" {
		t.Errorf("%+v", r)
	}
	if _, err := s.rebuild(t, h, "one", false); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "live interpreter") {
		t.Errorf("an intact session was rebuilt: %v", err)
	}
}

// A rebuild that fails leaves no interpreter with a part of the variables, which the next one would
// call intact.
func TestFailedRebuildLeavesNoInterpreter(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	s.call(t, h, "one", "set x 5")
	s.call(t, h, "one", "set y 6")
	s, h = l.restart(t, nil)
	n := 0
	_, err := execution.RebuildSession(t.Context(), s.Runner, h,
		execution.Rebuild{Session: "one", Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
			if n++; n == 2 {
				return reply.Result{}, fault.New(fault.Exhausted, "busy")
			}
			x, err := s.Start(ctx, h, req)
			if err != nil {
				return reply.Result{}, err
			}
			return done(t, x), nil
		}})
	if fault.KindOf(err) != fault.Exhausted {
		t.Fatal(err)
	}
	s.wantLive(t, 0)
	if b, err := s.rebuild(t, h, "one", false); err != nil || b.Tasks != 2 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestRebuildStopsBeforeCallThatIsNotOnRecord(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, map[string]string{"task": callFind})
	s.call(t, h, "one", "set x 5")
	s.call(t, h, "one", "task")
	const find = `call call_tool {"server": "crm", "tool": "find", "args": {"other": %d}}`
	for script, want := range map[string]string{
		callFind + "\n" + callFind:            "task_002 cannot be replayed: the code calls crm.find, which is not on record",
		fmt.Sprintf(find, 1):                  "task_002 cannot be replayed: the code calls crm.find with another value of ",
		`call load_skill {"name": "x"}`:       "task_002 cannot be replayed: the code calls load_skill, which is not on record",
		`call ask {"question": "Who is it?"}`: "task_002 cannot be replayed: the code calls ask, which is not on record",
	} {
		s, h := l.restart(t, map[string]string{"task": script})
		if _, err := s.rebuild(t, h, "one", true); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), want) ||
			!strings.Contains(fault.Hint(err), "stopped before this call") {
			t.Errorf("%v, want %s", err, want)
		}
		s.wantLive(t, 0)
	}
	s, h = l.restart(t, map[string]string{"task": "result 1"})
	b, err := s.rebuild(t, h, "one", false)
	if err != nil || len(b.Differs) != 1 || !cmp.Equal(b.Notes,
		[]string{"task_002 did not make all of its recorded calls again: crm.find"}) {
		t.Errorf("%+v, %v", b, err)
	}
	if n := l.called.Load(); n != 1 {
		t.Errorf("%d calls were made", n)
	}
}

func TestRebuildRepeatsCallsWithoutRecordOnlyIfAsked(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	for _, how := range []session.Recorded{session.NotRecorded, session.RecordTooLarge} { // as before records
		if _, err := h.Sessions.Append(t.Context(), "old", session.Step{Code: "set x 5", Result: "null", Recorded: how}); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := s.rebuild(t, h, "old", false); err != nil || b.Tasks != 2 {
		t.Fatalf("tasks without calls: %+v, %v", b, err)
	}
	s, h = l.restart(t, nil)
	if _, err := h.Sessions.Append(t.Context(), "old", session.Step{Code: callFind}); err != nil {
		t.Fatal(err)
	}
	_, err := s.rebuild(t, h, "old", false)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(),
		"task_003 cannot be replayed: the code calls crm.find, which is not on record; it is older") ||
		!strings.Contains(fault.Hint(err), "--repeat-calls") {
		t.Errorf("%v, hint %s", err, fault.Hint(err))
	}
	if n := l.called.Load(); n != 0 {
		t.Fatalf("%d calls were made", n)
	}
	if b, err := s.rebuild(t, h, "old", true); err != nil || b.Tasks != 3 || l.called.Load() != 1 {
		t.Errorf("%+v, %v after %d calls", b, err, l.called.Load())
	}
}
