package execution_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// sessionSetup is a setup with a queue that does not limit executions.
func sessionSetup(t *testing.T, cfg execution.Sessions) setup {
	return newSetup(t, execution.Config{Sessions: cfg}, fake.Config{}, admit.Config{Concurrent: 64})
}

// call executes code in a session and returns its result.
func (s setup) call(t *testing.T, home *home.Home, id, code string) reply.Result {
	t.Helper()
	return done(t, s.start(t, t.Context(), home, execution.Request{Code: code, SessionID: id}))
}

// startError returns the error of an execution that must not start.
func (s setup) startError(t *testing.T, ctx context.Context, home *home.Home, req execution.Request) error {
	t.Helper()
	x, err := s.Start(ctx, home, req)
	for err == nil {
		var e execution.Event
		if e, err = x.Next(context.Background()); e.Done != nil {
			t.Fatalf("it ran: %+v", e.Done)
		}
	}
	return err
}

func (s setup) wantLive(t *testing.T, want int) {
	t.Helper()
	open, _ := s.backend.Count()
	if n := s.Stats().Live; n != want || open != want {
		t.Errorf("%d interpreters are counted and %d open, want %d", n, open, want)
	}
}

func states(results ...reply.Result) (all []string) {
	for _, r := range results {
		all = append(all, r.Session.State)
	}
	return all
}

func TestSessionKeepsInterpreter(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	first := s.call(t, home, "one", "set x 5\nprint hi")
	second := s.call(t, home, "one", "get x")
	raised := s.call(t, home, "one", "raise ValueError no")
	third := s.call(t, home, "one", "get x")
	other := s.call(t, home, "two", "get x")
	s.wantLive(t, 2)
	alone := s.run(t, home, "get x")
	if got, want := states(first, second, raised, third, other), []string{"new", "live", "live", "live", "new"}; !cmp.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
	if string(second.Value) != "5" || string(third.Value) != "5" || other.Success() || alone.Success() || alone.Session != nil {
		t.Errorf("x is %s, %s, %s, %s", second.Value, third.Value, other.Value, alone.Value)
	}
	log, err := home.Sessions.Find(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range log.Tasks {
		got = append(got, task.Code+" -> "+task.Result+" | "+task.Output)
	}
	want := []string{"set x 5\nprint hi -> null | hi", "get x -> 5 | ", "raise ValueError no -> error: ValueError: no | ", "get x -> 5 | "}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRefusalKeepsSessionInterpreter(t *testing.T) {
	s := newSetup(t, execution.Config{Restriction: execution.Restriction{Module: "restricted"}}, fake.Config{}, admit.Config{})
	for _, home := range []*home.Home{newHome(t, "a"), newHome(t, "b")} {
		first := s.call(t, home, "one", "set x 5")
		refused := s.call(t, home, "one", "refuse RestrictedError line 1: no\nset x 6")
		third := s.call(t, home, "one", "get x")
		if got, want := states(first, refused, third), []string{"new", "live", "live"}; !cmp.Equal(got, want) ||
			string(third.Value) != "5" {
			t.Errorf("states %q, want %q; x is %s", got, want, third.Value)
		}
		if is := refused.LogText(); is != "error: RestrictedError: line 1: no" {
			t.Errorf("the log has %q", is)
		}
	}
}

func TestSessionIsInvisibleToOtherTenant(t *testing.T) {
	all := newTenants(t)
	a, b, s := newHome(t, "a", all), newHome(t, "b", all), sessionSetup(t, execution.Sessions{})
	s.call(t, a, "same", "set x 1")
	if r := s.call(t, b, "same", "get x"); r.Success() || r.Session.State != "new" {
		t.Errorf("b found a's interpreter: %+v", r)
	}
	s.call(t, b, "same", "set x 2")
	if r := s.call(t, a, "same", "get x"); string(r.Value) != "1" {
		t.Errorf("a's x is %s", r.Value)
	}
}

func TestSessionRunsOneCallAtATime(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	s.call(t, home, "one", "set x 0")
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			x, err := s.Start(t.Context(), home, execution.Request{SessionID: "one", Code: fmt.Sprintf("set x %d\nsleep 1ms\nget x", i)})
			if err != nil {
				t.Error(err)
				return
			}
			if r := done(t, x); string(r.Value) != fmt.Sprint(i) || r.Session.State != "live" {
				t.Errorf("call %d: %s in a %s interpreter", i, r.Value, r.Session.State)
			}
		})
	}
	all.Wait()
	s.wantLive(t, 1)
	if log, err := home.Sessions.Find(t.Context(), "one"); err != nil || len(log.Tasks) != 17 {
		t.Errorf("%d steps in the log, %v", len(log.Tasks), err)
	}
}

func TestWaitForSessionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{Waiting: 2, Wait: 10 * time.Second})
		req := execution.Request{SessionID: "one", Code: "sleep 25s\nresult 1"}
		first := s.start(t, t.Context(), home, req)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		left := s.start(t, ctx, home, req)
		synctest.Wait()
		late := s.start(t, t.Context(), home, req)
		synctest.Wait()
		if err := s.startError(t, t.Context(), home, req); fault.KindOf(err) != fault.Exhausted || !strings.Contains(err.Error(),
			"2 more are waiting") {
			t.Errorf("the third that waits: %v", err)
		}
		cancel()
		if r := done(t, left); r.ErrorType != "cancelled" {
			t.Errorf("the call that was cancelled: %+v", r)
		}
		if _, err := late.Next(t.Context()); fault.KindOf(err) != fault.Exhausted || !strings.Contains(err.Error(),
			`session "one" is still running another call after 10 seconds`) {
			t.Errorf("the call that waited too long: %v", err)
		}
		if r := done(t, first); string(r.Value) != "1" {
			t.Errorf("the first: %+v", r)
		}
		if r := s.call(t, home, "one", "result 2"); r.Session.State != "live" {
			t.Errorf("after all: %+v", r)
		}
	})
}

func TestEndedInterpreterIsReported(t *testing.T) {
	for name, tc := range map[string]struct{ code, kind string }{
		"timeout": {"sleep 1h", "timeout"}, "memory": {"exceed memory", "memory"}, "crash": {"crash", "crashed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
				s.call(t, home, "one", "set x 1")
				r := s.call(t, home, "one", tc.code)
				if r.ErrorType != tc.kind || r.Session.State != "ended" || !strings.Contains(r.Session.Note, "session resume one") {
					t.Errorf("%s: %+v", r.ErrorType, r.Session)
				}
				s.wantLive(t, 0)
				if r = s.call(t, home, "one", "get x"); r.Success() || r.Session.State != "restarted" || !strings.Contains(r.Session.Note,
					"/workspace/sessions/one.json") {
					t.Errorf("the next call: %+v", r.Session)
				}
				if r = s.call(t, home, "one", "result 1"); r.Session.State != "live" || r.Session.Note != "" {
					t.Errorf("the call after it: %+v", r.Session)
				}
				steps, err := home.Sessions.Replay(t.Context(), "one")
				if err != nil || len(steps) != 4 || !steps[1].InterpreterLost || steps[0].InterpreterLost || steps[2].InterpreterLost ||
					!strings.HasPrefix(steps[1].Result, "error: ") {
					t.Errorf("%+v, %v", steps, err)
				}
			})
		})
	}
}

func TestCancelledCallEndsInterpreter(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	ctx, cancel := context.WithCancel(t.Context())
	x := s.start(t, ctx, home, execution.Request{SessionID: "one", Code: `call progress {"done": 1}` + "\nsleep 1h"})
	if _, err := x.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := done(t, x); r.ErrorType != "cancelled" || r.Session.State != "ended" {
		t.Errorf("%+v", r)
	}
	s.wantLive(t, 0)
}

func TestDeadInterpreterIsReplaced(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	s.call(t, home, "one", "set x 1")
	s.backend.Kill()
	if r := s.call(t, home, "one", "result 2"); !r.Success() || r.Session.State != "restarted" {
		t.Errorf("%+v", r)
	}
	s.wantLive(t, 1)
}

func TestNewRunnerReportsFreshInterpreter(t *testing.T) {
	home := newHome(t, "a")
	sessionSetup(t, execution.Sessions{}).call(t, home, "one", "set x 1")
	if r := sessionSetup(t, execution.Sessions{}).call(t, home, "one", "get x"); r.Success() || r.Session.State != "restarted" {
		t.Errorf("%+v", r)
	}
}

func TestIdleInterpreterIsFrozenThenEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{Idle: 15 * time.Minute})
		s.call(t, home, "one", "set x 1")
		for range 3 {
			if n := s.backend.Frozen(); n != 0 {
				t.Errorf("%d are frozen before the answer can be there", n)
			}
			time.Sleep(time.Second)
			if n := s.backend.Frozen(); n != 1 {
				t.Errorf("%d are frozen after a second", n)
			}
			time.Sleep(14 * time.Minute)
			s.wantLive(t, 1)
			if r := s.call(t, home, "one", "get x"); string(r.Value) != "1" {
				t.Errorf("%+v", r)
			}
		}
		time.Sleep(15*time.Minute + time.Second)
		s.wantLive(t, 0)
		if r := s.call(t, home, "one", "get x"); r.Success() || r.Session.State != "restarted" {
			t.Errorf("%+v", r)
		}
	})
}

func TestLeastRecentlyUsedInterpreterIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTenants(t)
		a, b, c, s := newHome(t, "a", all), newHome(t, "b", all), newHome(t, "c", all), sessionSetup(t,
			execution.Sessions{PerTenant: 3, Live: 5})
		next := func(home *home.Home, ids ...string) (states []string) {
			for _, id := range ids {
				time.Sleep(time.Second)
				states = append(states, s.call(t, home, id, "result 1").Session.State)
			}
			return states
		}
		next(a, "1", "2", "3", "1", "4") // 2 was idle longest
		if got, want := next(a, "1", "3", "4"), []string{"live", "live", "live"}; !cmp.Equal(got, want) {
			t.Errorf("a's are %q", got)
		}
		s.wantLive(t, 3)
		if got := next(a, "2"); got[0] != "restarted" { // evicts 1
			t.Errorf("a's 2 is %q", got)
		}
		next(b, "1", "2")
		s.wantLive(t, 5)
		next(c, "1") // a's 3 was idle longest of all
		s.wantLive(t, 5)
		if got, want := next(a, "4", "2"), []string{"live", "live"}; !cmp.Equal(got, want) {
			t.Errorf("a's are %q", got)
		}
		if got := next(b, "1", "2"); !cmp.Equal(got, []string{"live", "live"}) {
			t.Errorf("b's are %q", got)
		}
	})
}

func TestRunningInterpretersAreNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{PerTenant: 2})
		var busy []*execution.Execution
		for _, id := range []string{"1", "2"} {
			busy = append(busy, s.start(t, t.Context(), home, execution.Request{SessionID: id, Code: "sleep 10s\nresult 1"}))
		}
		synctest.Wait()
		err := s.startError(t, t.Context(), home, execution.Request{SessionID: "3", Code: "result 1"})
		if fault.KindOf(err) != fault.Exhausted || !strings.Contains(err.Error(), "2 sessions are running code") {
			t.Error(err)
		}
		for _, x := range busy {
			if r := done(t, x); string(r.Value) != "1" {
				t.Errorf("%+v", r)
			}
		}
		if r := s.call(t, home, "3", "result 1"); !r.Success() {
			t.Errorf("afterwards: %+v", r)
		}
	})
}

func TestLiveInterpretersAreBounded(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	n := 200
	if longtest.Enabled() {
		n = 10_000
	}
	for i := range n {
		x := s.start(t, t.Context(), home, execution.Request{SessionID: fmt.Sprint("s", i), Code: "set x 1", Replay: &sessions.Rerun{}})
		if r := done(t, x); !r.Success() {
			t.Fatalf("%+v", r)
		}
		if open, _ := s.backend.Count(); open > 8+1 { // one more while it is closed
			t.Fatalf("%d interpreters live", open)
		}
	}
	s.wantLive(t, 8)
}

func TestInterpreterMemoryIsFixedAtStart(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	req := func(mb int) execution.Request {
		return execution.Request{SessionID: "one", Code: "result 1", MemoryMB: mb}
	}
	done(t, s.start(t, t.Context(), home, req(700)))
	for _, mb := range []int{0, 700} {
		if r := done(t, s.start(t, t.Context(), home, req(mb))); !r.Success() {
			t.Errorf("%d MB: %+v", mb, r)
		}
	}
	err := s.startError(t, t.Context(), home, req(800))
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(),
		`memory_mb is 800, but the interpreter of session "one" was started with 700`) {
		t.Error(err)
	}
	if r := s.call(t, home, "one", "exceed memory"); !strings.Contains(r.Error, "700 MB") {
		t.Errorf("its limit is %q", r.Error)
	}
}

// A live interpreter has the modules of the subset that it was started in.
func TestSessionRefusesAnotherSubset(t *testing.T) {
	office := "servers of office"
	home, s := newHome(t, "a"), newSetup(t, execution.Config{SubsetModules: func(tenant.ID, string) (string, string) {
		return "modules",
			office
	}}, fake.Config{}, admit.Config{})
	req := func(subset string) execution.Request {
		return execution.Request{SessionID: "one", Code: "result 1", Subset: subset}
	}
	done(t, s.start(t, t.Context(), home, req("office")))
	for subset, want := range map[string]string{"": `session "one" has the servers of /mcp/p/office, and this request those of /mcp`,
		"few": "this request those of /mcp/p/few"} {
		err := s.startError(t, t.Context(), home, req(subset))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(fault.Hint(err),
			"another session_id") {
			t.Errorf("%q: %v, %q", subset, err, fault.Hint(err))
		}
	}
	if r := done(t, s.start(t, t.Context(), home, req("office"))); r.Session.State != reply.SessionLive {
		t.Errorf("the same subset: %+v", r.Session)
	}
	office = "other servers"
	if r := done(t, s.start(t, t.Context(), home, req("office"))); r.Session.State != reply.SessionRestarted ||
		!strings.Contains(r.Session.Note, "the operator has changed the settings") {
		t.Errorf("after its servers have changed: %+v", r.Session)
	}
}

func TestStartValidatesSessionID(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	if _, err := s.Start(t.Context(), home, execution.Request{SessionID: "../x", Code: "result 1"}); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

func TestCheckpointIsDurableWhenItReturns(t *testing.T) {
	home, s := newHome(t, "a"), sessionSetup(t, execution.Sessions{})
	s.call(t, home, "one", "result 1")
	r := s.call(t, home, "one", `call checkpoint {"step": 3, "context": {"rows": 5}}`+"\n"+
		`call checkpoint {"step": "4", "context": null}`+"\ncrash")
	if r.ErrorType != "crashed" {
		t.Fatalf("%+v", r)
	}
	log, err := home.Sessions.Find(t.Context(), "one")
	if err != nil || log.Checkpoint == nil {
		t.Fatal(log, err)
	}
	if c := log.Checkpoint; string(c.Step) != `"4"` || string(c.Context) != "null" || c.LastTask != "task_002" || len(log.Tasks) != 2 {
		t.Errorf("%+v", c)
	}
	if r := s.run(t, home, `call checkpoint {"step": 3, "context": 1}`); r.ErrorType != "ValueError" || !strings.Contains(r.Error,
		"this code runs without one") {
		t.Errorf("without a session: %+v", r)
	}
	x := s.start(t, t.Context(), home, execution.Request{SessionID: "one", Code: `call checkpoint {"step": 9, "context": 1}`,
		Replay: &sessions.Rerun{}})
	if r := done(t, x); !r.Success() {
		t.Errorf("in a replay: %+v", r)
	}
	if again, err := home.Sessions.Find(t.Context(), "one"); err != nil || !cmp.Equal(again, log) {
		t.Errorf("a replay changed the log: %+v, %v", again, err)
	}
}

func TestStepListsItsStateFiles(t *testing.T) {
	home := newHome(t, "a")
	write := func(name string) {
		if err := home.Workspace.Write(context.Background(), name, []byte(name)); err != nil {
			t.Error(err)
		}
	}
	write("state/before.json")
	b := writing{fake.New(fake.Config{}), func(code string) {
		if name, ok := strings.CutPrefix(code, "# write "); ok {
			write(name)
		}
	}}
	r, err := execution.New(execution.Config{Backend: b, Queue: admit.New(admit.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(context.Background()) })
	for written := time.Now(); time.Since(written) < 20*time.Millisecond; { // the resolution of file times
	}
	for _, code := range []string{"# nothing", "# write state/one.json", "# write other.json", "# write state/sub/two.json",
		"# write state/one.json"} {
		x, err := r.Start(t.Context(), home, execution.Request{Code: code, SessionID: "one"})
		if err != nil {
			t.Fatal(err)
		}
		done(t, x)
	}
	log, err := home.Sessions.Find(t.Context(), "one")
	if want := []string{"/workspace/state/one.json", "/workspace/state/sub/two.json"}; err != nil || !cmp.Equal(log.StateFiles, want) {
		t.Errorf("%q, %v", log.StateFiles, err)
	}
}

// writing is a backend whose sandboxes also write files.
type writing struct {
	sandbox.Backend
	do func(code string)
}

func (w writing) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := w.Backend.Open(ctx, spec)
	return writer{s, w.do}, err
}

type writer struct {
	sandbox.Sandbox
	do func(code string)
}

func (w writer) Run(ctx context.Context, p sandbox.Program, h sandbox.Host) (sandbox.Outcome, error) {
	w.do(p.Code)
	return w.Sandbox.Run(ctx, p, h)
}

func TestFailedOpenLeavesNoInterpreter(t *testing.T) {
	s := newSetup(t, execution.Config{}, fake.Config{OpenError: errors.New("no sandbox")}, admit.Config{})
	home := newHome(t, "a")
	for range 3 {
		if err := s.startError(t, t.Context(), home, execution.Request{SessionID: "one",
			Code: "result 1"}); fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
	}
	s.wantLive(t, 0)
}

// TestHammer makes concurrent calls of two tenants during evictions, interpreter ends and Close.
func TestHammer(t *testing.T) {
	all := newTenants(t)
	s := sessionSetup(t, execution.Sessions{PerTenant: 3, Live: 4, Idle: 3 * time.Millisecond, Waiting: 100})
	homes := []*home.Home{newHome(t, "a", all), newHome(t, "b", all)}
	var callers sync.WaitGroup
	for i := range 12 {
		callers.Go(func() {
			for j := range 60 {
				home, id := homes[i%2], fmt.Sprint("s", (i+j)%5)
				code := fmt.Sprintf("set who %q\nsleep %dus\nget who", home.ID(), (i*j)%700)
				if j%17 == 16 {
					code = "crash"
				}
				x, err := s.Start(t.Context(), home, execution.Request{SessionID: id, Code: code, Replay: &sessions.Rerun{}})
				if err != nil {
					t.Error(err)
					return
				}
				e, err := x.Next(t.Context())
				switch {
				case fault.KindOf(err) == fault.Exhausted: // all were busy
				case err != nil:
					t.Error(err)
				case e.Done.Success() && string(e.Done.Value) != fmt.Sprintf("%q", home.ID()):
					t.Errorf("%s got %s", home.ID(), e.Done.Value)
				case !e.Done.Success() && e.Done.ErrorType != "crashed":
					t.Errorf("%+v", e.Done)
				}
			}
		})
	}
	callers.Wait()
	if n := s.Stats().Live; n > 4 {
		t.Errorf("%d interpreters live", n)
	}
}
