package execution_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// newGraceful returns restarts whose background executions keep their process shortly for an answer. If asks, a
// person has to approve each call.
func newGraceful(t *testing.T, asks bool) *restarts {
	t.Helper()
	l := newRestarts(t)
	l.grace = 50 * time.Millisecond
	if asks {
		rules, err := policy.New(policy.Config{Default: policy.Ask})
		if err != nil {
			t.Fatal(err)
		}
		l.tools.Calls = toolcall.New(toolcall.Config{Catalog: l.tools.Catalog, Policy: func() *policy.Policy { return rules },
			Upstream: callerFunc(func(context.Context, tool.Call) (tool.Result, error) { return l.answer(l.called.Add(1)) })})
	}
	return l
}

// wantWaiting checks that an execution asks, waits without a process and is not due, and returns its questions.
func wantWaiting(t *testing.T, s setup, h *home.Home, id string) []question.Question {
	t.Helper()
	e, _ := entry(t, h, id)
	open := live.QuestionsOf(e)
	if e.State != journal.Waiting || len(open) == 0 || e.Due.Before(time.Now().Add(time.Second)) {
		t.Fatalf("%+v, with %d questions", e, len(open))
	}
	noSandbox(t, s)
	if runDue(t, s, h) {
		t.Error("it is due before its answer")
	}
	if again, err := live.Questions(t.Context(), h.Runs, id); err != nil || len(again) != len(open) {
		t.Errorf("%+v %v", again, err)
	}
	if _, err := s.Resume(t.Context(), h, id); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(),
		"waits for an answer") {
		t.Errorf("it was resumed by hand: %v", err)
	}
	return open
}

// noSandbox waits until no sandbox is open.
func noSandbox(t *testing.T, s setup) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if open, _ := s.backend.Count(); open == 0 {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%d sandboxes are open", open)
		}
	}
}

func answerAll(t *testing.T, h *home.Home, id string, open []question.Question, r tool.Reply) {
	t.Helper()
	a := question.Answer{}
	for _, q := range open {
		a[q.ID] = r
	}
	if err := live.Answer(t.Context(), h.Runs, id, a); err != nil {
		t.Fatal(err)
	}
}

func approve(t *testing.T, h *home.Home, open []question.Question, yes bool) {
	t.Helper()
	for _, q := range open {
		if _, err := h.Approvals.Answer(t.Context(), q.Approval,
			approval.Answer{Approve: yes, By: approval.CommandLine, Note: "so"}); err != nil {
			t.Fatal(err)
		}
	}
}

// A background execution with an open question has no process. The answer wakes it, also if the daemon that got it is
// killed at once, and no call is repeated.
func TestQuestionNeedsNoProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply tool.Reply
		want  string
		kill  bool
	}{
		"answered":            {accept(`{"answer":"blue"}`), `{"action":"accept","value":"blue"}`, false},
		"answered and kill":   {accept(`{"answer":"blue"}`), `{"action":"accept","value":"blue"}`, true},
		"declined":            {tool.Reply{Action: tool.Decline}, `{"action":"decline","value":null}`, false},
		"returned unanswered": {tool.Reply{Action: tool.Cancel}, `{"action":"cancel","value":null}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newGraceful(t, false)
			s, h := l.restart(t, nil)
			id := dispatch(t, s, h, callFind+"\n"+callFind+"\n"+askColour+"\n# servers", journal.ResumeOnRestart)
			runDue(t, s, h)
			answerAll(t, h, id, wantWaiting(t, s, h, id), tc.reply)
			if tc.kill {
				l.kill(t)
				s, h = l.restart(t, nil)
			}
			if !runDue(t, s, h) || runDue(t, s, h) {
				t.Error("the answer does not make it due once")
			}
			if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != tc.want || l.called.Load() != 2 {
				t.Errorf("%+v %s after %d calls", e, r.Value, l.called.Load())
			}
		})
	}
}

// An approval wakes the execution, and its call is made once; so does a denial, and no call is made.
func TestApprovalNeedsNoProcess(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{true, false} {
		for _, kill := range []bool{true, false} {
			l := newGraceful(t, true)
			s, h := l.restart(t, nil)
			id := dispatch(t, s, h, callFind+"\n# servers", journal.ResumeOnRestart)
			runDue(t, s, h)
			approve(t, h, wantWaiting(t, s, h, id), approved)
			if kill {
				l.kill(t)
				s, h = l.restart(t, nil)
			}
			if !runDue(t, s, h) || runDue(t, s, h) {
				t.Error("the answer does not make it due once")
			}
			e, r := entry(t, h, id)
			if approved && (e.Outcome != journal.Succeeded || string(r.Value) != `{"value":{"n":1}}` || l.called.Load() != 1) ||
				!approved && (e.Outcome != journal.Unsuccessful || r.ErrorType != "RuntimeError" || l.called.Load() != 0) {
				t.Errorf("approved %t: %+v %+v after %d calls", approved, e, r, l.called.Load())
			}
		}
	}
}

// The code of an execution that has no process sees that its approval has expired, and the person is not asked again.
func TestApprovalExpiresWithoutProcess(t *testing.T) {
	t.Parallel()
	l := newGraceful(t, true)
	l.expire = 2 * time.Second
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\n# servers", journal.ResumeOnRestart)
	runDue(t, s, h)
	open := wantWaiting(t, s, h, id)
	for deadline := time.Now().Add(time.Minute); !runDue(t, s, h); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its end does not wake it")
		}
	}
	e, r := entry(t, h, id)
	if e.Outcome != journal.Unsuccessful || !strings.Contains(r.Error, "approval "+open[0].Approval+" is expired") || l.called.Load() != 0 {
		t.Errorf("%+v %+v", e, r)
	}
	if all, err := h.Approvals.List(t.Context(), true); err != nil || len(all) != 1 || all[0].State != approval.Expired {
		t.Errorf("%+v %v", all, err)
	}
}

// Questions of several threads wait together, and each answer wakes the execution.
func TestQuestionsOfThreadsNeedNoProcess(t *testing.T) {
	t.Parallel()
	l := newGraceful(t, false)
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\n"+`spawn ask {"question":"A"}`+"\n"+`spawn ask {"question":"B"}`+"\nresult 1\n# servers, spawn",
		journal.ResumeOnRestart)
	for n := range 2 {
		if !runDue(t, s, h) {
			t.Fatal("it is not due")
		}
		open := wantWaiting(t, s, h, id)
		if len(open) != 2-n {
			t.Errorf("%d questions after %d answers", len(open), n)
		}
		answerAll(t, h, id, open[:1], accept(`{"answer":"x"}`))
	}
	runDue(t, s, h)
	if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != "1" || l.called.Load() != 1 {
		t.Errorf("%+v %+v after %d calls", e, r, l.called.Load())
	}
}

// A thread that makes a call keeps the process of an execution with an open question.
func TestCallOfThreadKeepsProcess(t *testing.T) {
	t.Parallel()
	l := newGraceful(t, false)
	answer := make(chan bool)
	l.answer = func(int64) (tool.Result, error) {
		<-answer
		return tool.Result{Structured: json.RawMessage("1")}, nil
	}
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, spawnFind+"\n"+askColour+"\n# servers, spawn", journal.ResumeOnRestart)
	ended := make(chan bool)
	go func() { ended <- runDue(t, s, h) }()
	for e, _ := entry(t, h, id); len(live.QuestionsOf(e)) == 0; e, _ = entry(t, h, id) {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(10 * l.grace)
	if e, _ := entry(t, h, id); e.State != journal.Running {
		t.Errorf("it is %s during a call", e.State)
	}
	close(answer)
	<-ended
	wantWaiting(t, s, h, id)
}

// A caller that shows the question keeps the process.
func TestShownQuestionKeepsProcess(t *testing.T) {
	t.Parallel()
	l := newGraceful(t, false)
	s, h := l.restart(t, nil)
	x := s.start(t, t.Context(), h, execution.Request{Code: askColour})
	release := x.Hold()
	nextQuestions(t, x)
	if ok, err := s.Detach(t.Context(), h, x); !ok || err != nil {
		t.Fatal(ok, err)
	}
	select {
	case <-x.Ended():
		t.Error("its process has ended")
	case <-time.After(10 * l.grace):
	}
	release()
	release()
	<-x.Ended()
	if s.Find(h, x.ID()) != nil {
		t.Error("it is found in this process")
	}
	wantWaiting(t, s, h, x.ID())
}

// A waiting execution can be cancelled; its approval is withdrawn.
func TestCancelledExecutionAsksNoMore(t *testing.T) {
	t.Parallel()
	l := newGraceful(t, true)
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\n# servers", journal.ResumeOnRestart)
	runDue(t, s, h)
	open := wantWaiting(t, s, h, id)
	if err := s.Cancel(t.Context(), h, id); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Approvals.Answer(t.Context(), open[0].Approval, approval.Answer{Approve: true, By: approval.CommandLine}); err == nil ||
		!strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("the approval of a cancelled execution: %v", err)
	}
	if e, _ := entry(t, h, id); e.Outcome != journal.Cancelled || runDue(t, s, h) || l.called.Load() != 0 {
		t.Errorf("%+v", e)
	}
}

// An answer that comes after another one, and that no question is left for, does not keep the process of a wait.
func TestSecondAnswerDoesNotKeepProcess(t *testing.T) {
	t.Parallel()
	l := newGraceful(t, false)
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\n"+wait(`"event":"go"`)+"\n# wait_for", journal.ResumeOnRestart)
	if err := h.Runs.Signal(t.Context(), id, live.AnswerEvent, json.RawMessage(`{"q1":{"action":"decline"}}`)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool, 1)
	go func() { ended <- runDue(t, s, h) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = s.Cancel(t.Context(), h, id)
		<-ended
	}
	if e, _ := entry(t, h, id); e.State != journal.Waiting || !e.Due.IsZero() {
		t.Errorf("%+v", e)
	}
}

// The time for which results are kept, and the limits of records, are those of what has ended: a question waits as long as
// it is open.
func TestWaitingQuestionOutlivesResults(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{true, false} {
		l := newGraceful(t, asks)
		s, h := l.restart(t, nil)
		id := dispatch(t, s, h, map[bool]string{true: callFind, false: askColour}[asks]+"\n# servers", journal.ResumeOnRestart)
		runDue(t, s, h)
		open := wantWaiting(t, s, h, id)
		other := dispatch(t, s, h, "result 1", journal.ResumeOnRestart)
		runDue(t, s, h)
		db, err := sql.Open("sqlite", filepath.Join(l.dir, "data", "private", "a", "tenant.db"))
		if err == nil {
			_, err = db.Exec("UPDATE runs SET created = created - 800000000, changed = changed - 800000000") // more than nine days
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		dispatch(t, s, h, askColour+"\n# servers", journal.ResumeOnRestart)
		runDue(t, s, h) // a new record makes room for itself
		for range 2 {
			if err := errors.Join(h.Runs.Sweep(t.Context(), time.Now().Add(-24*time.Hour)), h.Approvals.Sweep(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.Runs.Find(t.Context(), other); fault.KindOf(err) != fault.NotFound {
			t.Errorf("the result of another one is kept: %v", err)
		}
		wantWaiting(t, s, h, id)
		before := l.called.Load()
		if asks {
			approve(t, h, open, true)
		} else {
			answerAll(t, h, id, open, accept(`{"answer":"blue"}`))
		}
		runDue(t, s, h)
		if e, _ := entry(t, h, id); e.Outcome != journal.Succeeded || asks != (l.called.Load() == before+1) {
			t.Errorf("%+v after %d calls", e, l.called.Load()-before)
		}
	}
}

// An execution that is cancelled while it asks with a process asks no more either.
func TestCancelWithdrawsApprovalOfRunningExecution(t *testing.T) {
	t.Parallel()
	l := newGraceful(t, true)
	l.grace = time.Hour
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, callFind+"\n# servers", journal.ResumeOnRestart)
	ended := make(chan bool)
	go func() { ended <- runDue(t, s, h) }()
	var open []approval.Request
	for len(open) == 0 {
		open, _ = h.Approvals.List(t.Context(), false)
	}
	if err := s.Cancel(t.Context(), h, id); err != nil {
		t.Fatal(err)
	}
	<-ended
	if r, err := h.Approvals.Find(t.Context(), open[0].ID); err != nil || r.State != approval.Withdrawn {
		t.Errorf("its approval is %s, %v", r.State, err)
	}
	if e, _ := entry(t, h, id); e.Outcome != journal.Cancelled || l.called.Load() != 0 {
		t.Errorf("%+v", e)
	}
}

// A process is killed before it sees that its execution is cancelled, or gives the execution up at the same time. None of
// the code runs again.
func TestCancelledExecutionIsNotContinued(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{true, false} {
		l := newGraceful(t, asks)
		s, h := l.restart(t, nil)
		id := dispatch(t, s, h, callFind+"\n# servers", journal.ResumeOnRestart)
		if e, err := h.Runs.Claim(t.Context()); err != nil || e == nil { // by a process that hangs
			t.Fatal(e, err)
		}
		if asks {
			if _, err := h.Approvals.Create(t.Context(), approval.Question{Binding: approval.Binding{Kind: approval.Call,
				Execution: id}}); err != nil {
				t.Fatal(err)
			}
		}
		other, hOther := l.restart(t, nil)
		if err := other.Cancel(t.Context(), hOther, id); err != nil {
			t.Fatal(err)
		}
		if asks { // it waits, with its next transaction
			if err := h.Journal.End(t.Context(), id, journal.End{State: journal.Waiting,
				Wait: journal.Wait{Events: []string{"x"}}}); err != nil {
				t.Fatal(err)
			}
		} else {
			l.kill(t)
			other, hOther = l.restart(t, nil)
		}
		if !runDue(t, other, hOther) {
			t.Fatal("it is not due")
		}
		if e, _ := entry(t, hOther, id); e.Outcome != journal.Cancelled || l.called.Load() != 0 {
			t.Errorf("%+v after %d calls", e, l.called.Load())
		}
		if open, err := hOther.Approvals.List(t.Context(), false); err != nil || len(open) != 0 {
			t.Errorf("open are %+v, %v", open, err)
		}
	}
}

// An answer that arrives while the process ends is not lost, whether it is given here or in another process.
func TestAnswerWhileProcessEnds(t *testing.T) {
	t.Parallel()
	times := 5
	if longtest.Slow() {
		times = 30
	}
	for _, asks := range []bool{true, false} {
		l := newGraceful(t, asks)
		s, h := l.restart(t, nil)
		other, hOther := l.restart(t, nil)
		for range times {
			before := l.called.Load()
			id := dispatch(t, s, h, map[bool]string{true: callFind, false: askColour}[asks]+"\n# servers", journal.ResumeOnRestart)
			var all sync.WaitGroup
			all.Go(func() { runDue(t, s, h) })
			for x := s.Find(h, id); x == nil || len(x.Questions()) == 0; x = s.Find(h, id) {
				time.Sleep(time.Millisecond)
			}
			x := s.Find(h, id)
			if x == nil {
				t.Fatal("its process ended before the grace")
			}
			open := x.Questions()
			time.Sleep(time.Duration(rand.Int64N(int64(6 * l.grace))))
			switch {
			case asks:
				approve(t, hOther, open, true)
			default:
				if _, err := s.Attach(t.Context(), h, id, question.Answer{"q1": accept(`{"answer":"x"}`)}); fault.KindOf(err) == fault.NotFound {
					answerAll(t, hOther, id, open, accept(`{"answer":"x"}`))
				}
			}
			all.Wait()
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				runDue(t, other, hOther)
				e, _ := entry(t, hOther, id)
				if e.Outcome == journal.Succeeded {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("%+v", e)
				}
			}
			if n := l.called.Load() - before; asks && n != 1 {
				t.Errorf("%d calls", n)
			}
		}
	}
}
