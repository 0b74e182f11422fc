package execution_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// restarts is a data directory for successive daemons.
type restarts struct {
	dir    string
	tools  *execution.Tools
	called atomic.Int64
	answer func(n int64) (tool.Result, error)
	queue  admit.Config
	grace  time.Duration // with a process, of a background execution with open questions
	expire time.Duration // of approvals

	processes []*journal.Process
}

func newRestarts(t *testing.T) *restarts {
	l := &restarts{dir: t.TempDir()}
	l.answer = func(n int64) (tool.Result, error) {
		return tool.Result{Structured: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}, nil
	}
	l.tools = tools(t, func(context.Context, tool.Call) (tool.Result, error) { return l.answer(l.called.Add(1)) })
	return l
}

// restart starts a new daemon. The code of its sandbox is the name of a script.
func (l *restarts) restart(t *testing.T, scripts map[string]string) (setup, *home.Home) {
	t.Helper()
	process := journal.NewProcess(filepath.Join(l.dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	all, err := home.Open(t.Context(), home.Config{Root: filepath.Join(l.dir, "data"), RecentCode: -1, Process: process,
		Approvals: func(id tenant.ID, db *store.DB) (*approval.Store, error) {
			return approval.New(approval.Config{DB: db, Tenant: id, Key: bytes.Repeat([]byte{1}, 32), Timeout: l.expire})
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { all.Close(); process.Close() })
	l.processes = append(l.processes, process)
	home := newHome(t, "a", all)
	s := newSetup(t, execution.Config{Tools: l.tools, AnswerGrace: l.grace}, fake.Config{Scripts: scripts}, l.queue)
	return s, home
}

// kill releases the locks of all daemons, as the kernel does when they are killed.
func (l *restarts) kill(t *testing.T) {
	t.Helper()
	for _, p := range l.processes {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l.processes = nil
}

// resume resumes id and returns its result.
func (s setup) resume(t *testing.T, home *home.Home, id string) reply.Result {
	t.Helper()
	x, err := s.Resume(t.Context(), home, id)
	if err != nil {
		t.Fatal(err)
	}
	if r := done(t, x); r.ExecutionID == id {
		return r
	}
	t.Fatal("it has another id")
	return reply.Result{}
}

func recordedRuns(t *testing.T, home *home.Home) []journal.Unfinished {
	t.Helper()
	left, err := home.Journal.ListUnfinished(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// An execution with an open question is cancelled when its daemon ends, and resumed by the next.
func TestSuspendedExecutionSurvivesRestart(t *testing.T) {
	l := newRestarts(t)
	code := callFind + "\n" + `call ask {"question": "First?"}` + "\n" + callFind + "\n" + askColour + "\n" + callFind
	first, home := l.restart(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	x := first.start(t, ctx, home, execution.Request{Code: code})
	nextQuestions(t, x)
	if _, err := first.Attach(t.Context(), home, x.ID(), question.Answer{"q1": accept(`{"answer":"yes"}`)}); err != nil {
		t.Fatal(err)
	}
	nextQuestions(t, x)
	if err := first.Suspend(x); err != nil {
		t.Fatal(err)
	}
	leave()
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Close(soon); err != nil {
		t.Fatal(err)
	}
	if r := done(t, x); r.Status != sandbox.Cancelled || !strings.Contains(r.Hint, "resume_execution") {
		t.Errorf("it ended as %+v", r)
	}

	second, home := l.restart(t, nil)
	if left := recordedRuns(t, home); len(left) != 1 || left[0].Reason != journal.Suspended || left[0].Execution != x.ID() ||
		left[0].Answered != 3 {
		t.Errorf("left is %+v", left)
	}
	x, err := second.Resume(t.Context(), home, x.ID())
	if err != nil {
		t.Fatal(err)
	}
	if x.PendingQuestions() != 1 {
		t.Errorf("%d questions were open", x.PendingQuestions())
	}
	open := nextQuestions(t, x) // only the open question
	if len(open) != 1 || open[0].Text != "Which colour?" {
		t.Fatalf("asked again: %+v", open)
	}
	if _, err := second.Attach(t.Context(), home, x.ID(), question.Answer{open[0].ID: accept(`{"answer":"blue"}`)}); err != nil {
		t.Fatal(err)
	}
	if r := done(t, x); string(r.Value) != `{"value":{"n":3}}` || l.called.Load() != 3 {
		t.Errorf("got %s %+v after %d calls", r.Value, r, l.called.Load())
	}
	if left := recordedRuns(t, home); len(left) != 0 {
		t.Errorf("a completed execution has a record: %+v", left)
	}
}

func TestInterruptedExecutionIsResumed(t *testing.T) {
	l := newRestarts(t)
	s, home := l.restart(t, map[string]string{"# servers": callFind + "\ncrash"})
	r := done(t, s.start(t, t.Context(), home, execution.Request{Code: "# servers"}))
	if r.Status != sandbox.Crashed || !strings.Contains(r.Hint, "/workspace") || !strings.HasSuffix(r.Hint, "are not repeated") ||
		s.Find(home, r.ExecutionID) != nil {
		t.Fatalf("%+v", r)
	}
	for range 2 {
		if again := s.resume(t, home, r.ExecutionID); again.Status != sandbox.Crashed || l.called.Load() != 1 {
			t.Errorf("%+v after %d calls", again, l.called.Load())
		}
	}
	if stats := s.Stats(); stats.Running != 0 || stats.Ended["crashed"] != 3 {
		t.Errorf("%+v", stats)
	}
}

func TestCompletedExecutionIsNotResumed(t *testing.T) {
	l := newRestarts(t)
	s, home := l.restart(t, map[string]string{"# servers": callFind + "\nraise ValueError no"})
	for _, code := range []string{callFind, "# servers"} {
		r := s.run(t, home, code)
		if again := s.resume(t, home, r.ExecutionID); again.Status != r.Status || s.Find(home, r.ExecutionID) == nil {
			t.Errorf("%+v became %+v", r, again)
		}
		other, home := l.restart(t, nil)
		if _, err := other.Resume(t.Context(), home, r.ExecutionID); fault.KindOf(err) != fault.NotFound {
			t.Error(err)
		}
	}
	if left := recordedRuns(t, home); len(left) != 0 || l.called.Load() != 2 {
		t.Errorf("%d calls, left is %+v", l.called.Load(), left)
	}
}

func TestDivergenceEndsReplayAndIsReported(t *testing.T) {
	l := newRestarts(t)
	const with = `call call_tool {"server": "crm", "tool": "find", "args": {"name": %q, "n": %d}}`
	first, home := l.restart(t, map[string]string{"# servers": fmt.Sprintf(with, "secret", 1) + "\n" + fmt.Sprintf(with, "secret",
		2) + "\ncrash"})
	r := done(t, first.start(t, t.Context(), home, execution.Request{Code: "# servers"}))
	id := r.ExecutionID
	for script, want := range map[string]string{
		fmt.Sprintf(with, "secret", 1) + "\n" + fmt.Sprintf(with, "hidden",
			2): `as call 2 it asks for crm.find with another value of "name" than the first run`,
		fmt.Sprintf(with, "secret", 1) + "\n" + `call load_skill {"name": "x"}`: "as call 2 it asks for load_skill, " +
			"and the first run asked for crm.find",
		`call read_resource {"server": "crm", "uri": "x"}`: "as call 1 it asks for read_resource " +
			"of crm, and the first run asked for crm.find",
		fmt.Sprintf(with, "secret", 3) + "\n" + fmt.Sprintf(with, "secret",
			2) + "\nresult \"x\"": `as call 1 it asks for crm.find with another value of "n" than the first run`,
	} {
		s, home := l.restart(t, map[string]string{"# servers": script})
		r := s.resume(t, home, id)
		if r.ErrorType != reply.TypeDivergence || !strings.Contains(r.Error, want) || strings.Contains(r.Error+r.Hint, "secret") ||
			r.Value != nil || r.Hint == "" {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	if l.called.Load() != 2 {
		t.Errorf("%d calls were made", l.called.Load())
	}
	s, home := l.restart(t, map[string]string{"# servers": fmt.Sprintf(with, "secret", 1) + "\n" + fmt.Sprintf(with, "secret",
		2) + "\nresult 5"})
	if r := s.resume(t, home, id); string(r.Value) != "5" { // the divergence has not damaged the record
		t.Errorf("%+v", r)
	}
}

// A new call of one thread waits for the recorded calls of the others, and must not keep
// the worker from making them.
func TestReplayOfThreadsWithNewQuickCall(t *testing.T) {
	l := newRestarts(t)
	first, home := l.restart(t, map[string]string{"# servers, threading": callFind + "\ncrash"})
	r := done(t, first.start(t, t.Context(), home, execution.Request{Code: "# servers, threading"}))
	second, home := l.restart(t, map[string]string{"# servers, threading": "spawn list_skills {}\n" + callFind})
	if again := second.resume(t, home, r.ExecutionID); string(again.Value) != `{"value":{"n":1}}` || l.called.Load() != 1 {
		t.Errorf("%+v after %d calls", again, l.called.Load())
	}
}

func TestReplayUsesRecordedAnswers(t *testing.T) {
	l := newRestarts(t)
	first, home := l.restart(t, map[string]string{"# servers": strings.Join([]string{
		`call save_skill {"name": "greet", "code": "def greet(): pass\n"}`, `call list_skills {}`, callFind, "crash"}, "\n")})
	r := done(t, first.start(t, t.Context(), home, execution.Request{Code: "# servers", Vars: json.RawMessage(`{"n": 7}`)}))
	if _, err := home.Skills.Save(t.Context(), skill.Draft{Name: "other", Code: "def other(): pass\n"}); err != nil { // since
		t.Fatal(err)
	}
	second, home := l.restart(t, map[string]string{"# servers": strings.Join([]string{
		`call save_skill {"name": "greet", "code": "def greet(): pass\n"}`, `call list_skills {}`}, "\n")})
	again := second.resume(t, home, r.ExecutionID)
	if !strings.Contains(string(again.Value), "greet") || strings.Contains(string(again.Value), "other") {
		t.Errorf("skills are %s", again.Value)
	}
	if skill, err := home.Skills.Find(t.Context(), "greet", 0); err != nil || skill.Metadata.Version != 1 {
		t.Errorf("it was saved again: %+v, %v", skill, err)
	}
}

func TestReplaySavesNoStateAgain(t *testing.T) {
	l := newRestarts(t)
	const save = `call save_state {"name": "n", "value": 1, "version": 0}`
	first, home := l.restart(t, map[string]string{"# servers": strings.Join([]string{`call get_state {"name": "n"}`, save, callFind,
		"crash"}, "\n")})
	r := done(t, first.start(t, t.Context(), home, execution.Request{Code: "# servers"}))
	second, home := l.restart(t, map[string]string{"# servers": strings.Join([]string{`call get_state {"name": "n"}`, save, callFind,
		`call get_state {"name": "n"}`}, "\n")})
	if again := second.resume(t, home, r.ExecutionID); string(again.Value) != `{"version":1,"value":1}` {
		t.Errorf("%+v", again)
	}
}

func TestResumeRefusesExecutionOfOtherProcess(t *testing.T) {
	l := newRestarts(t)
	first, home := l.restart(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	x := first.start(t, ctx, home, execution.Request{Code: callFind + "\n" + askColour})
	nextQuestions(t, x)
	second, other := l.restart(t, nil)
	if _, err := second.Resume(t.Context(), other, x.ID()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("another took it: %v", err)
	}
	if again, err := first.Resume(t.Context(), home, x.ID()); err != nil || len(nextQuestions(t, again)) != 1 {
		t.Errorf("the error does not name the owning process: %v", err)
	}
	leave()
	done(t, x)
	if r, err := second.Resume(t.Context(), newHome(t, "b"), x.ID()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant resumed it: %+v %v", r, err)
	}
}
