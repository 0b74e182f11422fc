package plan

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

func newLog(t *testing.T) *journal.Log {
	t.Helper()
	dir := t.TempDir()
	process := journal.NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	all, err := home.Open(t.Context(), home.Config{Root: filepath.Join(dir, "data"), Process: process})
	if err != nil {
		t.Fatal(err)
	}
	id, err := tenant.Parse("a")
	if err != nil {
		t.Fatal(err)
	}
	h, err := all.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Release(context.Background()), all.Close(), process.Close()); err != nil {
			t.Error(err)
		}
	})
	return h.Journal
}

// calls returns n planned calls of tool "s.t", the second of which has the result of the
// first as its argument.
func calls(n int) (all []toolcall.Planned) {
	for i := range n {
		c := toolcall.Planned{Ref: tool.Ref{Server: "s", Tool: "t"}, Args: json.RawMessage(`{"x":null}`)}
		if i == 1 {
			c.References = []tool.Reference{{Call: 1, Argument: tool.Path{"x"}, Result: tool.Path{"id"}}}
		}
		all = append(all, c)
	}
	return all
}

func savePlan(t *testing.T, log *journal.Log, p stored) string {
	t.Helper()
	id, err := save(t.Context(), log, p)
	if err != nil || !IsID(id) {
		t.Fatalf("%q, %v", id, err)
	}
	return id
}

func unchanged(context.Context, string, toolcall.Planned) error { return nil }

// callerFunc implements tool.Caller.
type callerFunc func(tool.Call) (tool.Result, error)

func (f callerFunc) Call(_ context.Context, c tool.Call) (tool.Result, error) { return f(c) }

func TestApplyStopsAtFirstCallThatIsNotDone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		err     error
		state   string
		message string
	}{
		{"failure", &tool.Failure{Message: "no such row"}, reply.CallFailed,
			"call 2 of the plan, s.t, failed: no such row; made before it and not undone: 1; not made: 1"},
		{"unknown outcome", &tool.Failure{Message: "no answer", Unknown: true}, reply.CallUnknown,
			"call 2 of the plan, s.t, may have been made: no answer; made before it and not undone: 1; not made: 1"},
		{"not sent", &tool.Failure{Message: "cannot be reached", NotMade: true, Local: true}, reply.CallNotMade,
			"call 2 of the plan, s.t, was not made: cannot be reached; made before it and not undone: 1; not made: 1"},
		{"no answer", &tool.Failure{Message: "did not respond within 1m0s", Unknown: true, Local: true}, reply.CallUnknown,
			"call 2 of the plan, s.t, may have been made: did not respond within 1m0s; made before it and not undone: 1; not made: 1"},
		{"refusal", fault.New(fault.Denied, "policy says block"), reply.CallFailed,
			"call 2 of the plan, s.t, failed: policy says block; made before it and not undone: 1; not made: 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := newLog(t)
			id := savePlan(t, log, stored{Calls: calls(3), Made: time.Now()})
			p, err := Open(t.Context(), log, id, unchanged)
			if err != nil {
				t.Fatal(err)
			}
			var sent []string
			res, results, again, wrong := p.Apply(t.Context(), callerFunc(func(c tool.Call) (tool.Result, error) {
				if sent = append(sent, string(c.Args)); len(sent) == 2 {
					return tool.Result{}, tc.err
				}
				return tool.Result{Structured: json.RawMessage(`{"id":7}`)}, nil
			}))
			if wrong != nil || again || len(results) != 1 {
				t.Errorf("%v, again %v, results %v", wrong, again, results)
			}
			if d := cmp.Diff([]string{`{"x":null}`, `{"x":7}`}, sent); d != "" {
				t.Error(d)
			}
			var states []string
			for _, c := range res.Applied {
				states = append(states, c.State)
			}
			if d := cmp.Diff([]string{reply.CallDone, tc.state, reply.CallNotMade}, states); d != "" {
				t.Error(d)
			}
			if res.Status != sandbox.Raised || res.ErrorType != reply.TypePlan || res.Error != tc.message {
				t.Errorf("%s %s %q", res.Status, res.ErrorType, res.Error)
			}
			if _, err := Open(t.Context(), log, id, unchanged); fault.KindOf(err) != fault.NotFound {
				t.Errorf("opening it again: %v", err)
			}
		})
	}
}

func TestInterruptedPlanCanBeOpenedAgain(t *testing.T) {
	log := newLog(t)
	id := savePlan(t, log, stored{Calls: calls(1), Made: time.Now()})
	p, err := Open(t.Context(), log, id, unchanged)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, again, wrong := p.Apply(ctx, callerFunc(func(tool.Call) (tool.Result, error) {
		cancel()
		return tool.Result{}, context.Canceled
	}))
	if !again || wrong != nil {
		t.Errorf("again %v, %v", again, wrong)
	}
	if p, err = Open(t.Context(), log, id, unchanged); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenRejectsStalePlans(t *testing.T) {
	log := newLog(t)
	old := savePlan(t, log, stored{Calls: calls(1), Made: time.Now().Add(-ttl)})
	if _, err := Open(t.Context(), log, old, unchanged); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "24 hours") {
		t.Errorf("expired: %v", err)
	}
	id := savePlan(t, log, stored{Calls: calls(1), Made: time.Now()})
	changed := func(context.Context, string, toolcall.Planned) error {
		return fault.New(fault.Denied, "the definition of s.t has changed").WithHint("make a new plan")
	}
	_, err := Open(t.Context(), log, id, changed)
	if fault.KindOf(err) != fault.Denied || fault.Hint(err) != "make a new plan" || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("changed: %v, hint %q", err, fault.Hint(err))
	}
	if p, err := Open(t.Context(), log, id, unchanged); err != nil {
		t.Errorf("the refused plan is lost: %v", err)
	} else if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A plan that was made by a clock which was put back since expires a day after the next start.
func TestPlanFromTheFutureExpires(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"), []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	process := journal.NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	t.Cleanup(func() { process.Close(); db.Close() })
	log := journal.New(journal.Config{DB: db, Tenant: tenant.Local, Process: process, Due: func(time.Time) error { return nil }})
	const year = 365 * 24 * time.Hour
	id := savePlan(t, log, stored{Calls: calls(1), Made: time.Now().Add(year)})
	pass := func(d time.Duration) {
		t.Helper()
		err := db.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE runs SET created = created - ?1, changed = changed - ?1", d.Milliseconds())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pass(-year)
	if err := log.Runs().Sweep(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	all, err := log.ListUnfinished(t.Context())
	if err != nil || len(all) != 1 || all[0].Created.After(time.Now()) || all[0].Changed.After(time.Now()) {
		t.Errorf("%+v %v", all, err)
	}
	pass(ttl - time.Minute)
	p, err := Open(t.Context(), log, id, unchanged)
	if err != nil {
		t.Fatalf("before it expires: %v", err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	pass(time.Hour)
	if _, err := Open(t.Context(), log, id, unchanged); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a day later: %v", err)
	}
}

func TestDenyDeletesPlanOnlyIfDenied(t *testing.T) {
	log := newLog(t)
	for _, tc := range []struct {
		err   error
		again bool
	}{
		{fault.New(fault.Denied, "the user declined the plan"), false},
		{context.Canceled, true},
	} {
		id := savePlan(t, log, stored{Calls: calls(1), Made: time.Now()})
		p, err := Open(t.Context(), log, id, unchanged)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, wrong := p.Deny(t.Context(), tc.err); again != tc.again || wrong != nil {
			t.Errorf("%v: again %v, %v", tc.err, again, wrong)
		}
		p, err = Open(t.Context(), log, id, unchanged)
		if found := err == nil; found != tc.again {
			t.Errorf("after %v: %v", tc.err, err)
		} else if found {
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
