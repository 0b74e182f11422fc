package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// setup is a runner with a fake backend.
type setup struct {
	*execution.Runner
	backend *fake.Backend
	queue   *admit.Queue
}

func newSetup(t *testing.T, cfg execution.Config, backend fake.Config, queue admit.Config) setup {
	t.Helper()
	t.TempDir() // the first call: Close below runs before temporary directories are removed
	s := setup{backend: fake.New(backend), queue: admit.New(queue)}
	cfg.Backend, cfg.Queue = s.backend, s.queue
	more := cfg.HostCalls
	cfg.HostCalls = func() []hostcall.Source {
		if more == nil {
			return []hostcall.Source{state.HostCalls()}
		}
		return append(more(), state.HostCalls())
	}
	var err error
	if s.Runner, err = execution.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if open, _ := s.backend.Count(); open != 0 {
			t.Errorf("%d sandboxes left open", open)
		}
	})
	return s
}

func defaultSetup(t *testing.T) setup {
	return newSetup(t, execution.Config{}, fake.Config{}, admit.Config{})
}

// start starts an execution and fails the test on an error.
func (s setup) start(t *testing.T, ctx context.Context, home *home.Home, req execution.Request) *execution.Execution {
	t.Helper()
	x, err := s.Start(ctx, home, req)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// done returns the result of x.
func done(t *testing.T, x *execution.Execution) reply.Result {
	t.Helper()
	for {
		e, err := x.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if e.Done != nil {
			return *e.Done
		}
	}
}

// run executes code and returns its result.
func (s setup) run(t *testing.T, home *home.Home, code string) reply.Result {
	t.Helper()
	return done(t, s.start(t, t.Context(), home, execution.Request{Code: code}))
}

func TestAnswers(t *testing.T) {
	const tail = `,"execution_time_ms":0,"execution_id":"exec_"}`
	limits := execution.Config{Sandbox: sandbox.Limits{Processes: 64, OpenFiles: 100, FileBytes: 1 << 30,
		CPU: 60 * time.Second, ResultBytes: 64 << 20, WorkspaceDisk: 2 << 30}}
	limit := func(word, what, next string) string {
		return fmt.Sprintf(`{"success":false,"error":%q,"error_type":%q,"error_source":"sandpiper","hint":%q,"limit":%q,"traceback":"","output":[]`, what, word, next, word) + tail
	}
	for _, tc := range []struct{ name, code, want string }{
		{"a value and output", "print a\nprint b <&> é\nresult {\"n\": 1}",
			`{"success":true,"result":{"n":1},"output":["a","b <&> é"]` + tail},
		{"no value", "print a", `{"success":true,"result":null,"output":["a"]` + tail},
		{"stderr of a success", "stderr shown\nresult 1", `{"success":true,"result":1,"output":[],"stderr":"shown\n"` + tail},
		{"an exception", "stderr shown\nprint before\nraise KeyError 'x'",
			`{"success":false,"error":"'x'","error_type":"KeyError","error_source":"code","traceback":"Traceback (most recent call ` +
				`last):\nKeyError: 'x'","output":["before"],"stderr":"shown\n"` + tail},
		{"an exception without words", "raise ValueError", `{"success":false,"error":"ValueError","error_type":"ValueError","error_source":"code","traceback":"Traceback (most recent call last):\nValueError: ","output":[]` + tail},
		{"a crash", "crash", `{"success":false,"error":"The Python process died: the interpreter ` +
			`died","error_type":"crashed","error_source":"sandpiper","hint":"files in /workspace are intact; run it again, and if it ` +
			`dies again, change what calls into C (ctypes, deep recursion) or uses much memory","traceback":"","output":[]` + tail},
		{"memory", "exceed memory", limit("memory", "Memory limit of 500 MB reached",
			"process the data in pieces (read_csv with chunksize, or duckdb, which need not load a file), or set memory_mb up to 2048, "+
				"whose default is the operator's sandbox.memory_mb")},
		{"processes", "exceed processes", limit("processes", "Limit of 64 on processes and threads reached", "start fewer at once")},
		{"open files", "exceed open_files", limit("open_files", "Limit of 100 on open files reached",
			"close files after use, for example with a with block")},
		{"file size", "exceed file_size", limit("file_size", "File size limit of 1024 MB reached", "write several smaller files")},
		{"cpu", "exceed cpu_time", limit("cpu_time", "CPU time limit of 60 seconds reached", "do less in one call")},
		{"result size", "exceed result_size", limit("result_size", "The result is larger than the limit of 64 MB",
			"return a summary and write the rest to a file in /workspace")},
		{"disk", "exceed disk", limit("disk", "The execution was ended: the workspace quota is reached: 12.0 KB and 2 files and "+
			"directories are used; more was in deleted files that the code held open, and is free again",
			"delete files that are not needed with delete_file, or write less; the operator can raise workspace.max_mb")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := newSetup(t, limits, fake.Config{}, admit.Config{}).run(t, newHome(t, "a"), tc.code)
			if !strings.HasPrefix(res.ExecutionID, "exec_") || len(res.ExecutionID) < 21 {
				t.Errorf("id %q", res.ExecutionID)
			}
			res.ExecutionID, res.Elapsed = "exec_", 0
			if d := cmp.Diff(tc.want, marshal(t, res.Answer())); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRestrictedModeExemptsCompiler(t *testing.T) {
	scripts := map[string]string{pycode.CompileCode: "refuse X ours\nresult null"}
	s := newSetup(t, execution.Config{Restriction: execution.Restriction{Module: "restricted"}}, fake.Config{Scripts: scripts},
		admit.Config{})
	for _, home := range []*home.Home{newHome(t, "a"), newHome(t, "b")} {
		if res := s.run(t, home, "refuse RestrictedError line 1: no\nprint ran"); res.Status != sandbox.Refused ||
			res.ErrorType != "RestrictedError" || res.Error != "line 1: no" || len(res.Output) > 0 || res.Success() {
			t.Errorf("%+v", res)
		}
		if _, err := s.Code.Compile(t.Context(), home, "import os", nil); err != nil {
			t.Error(err)
		}
	}
	if res := defaultSetup(t).run(t, newHome(t, "a"), "refuse RestrictedError no\nprint ran"); !res.Success() || len(res.Output) != 1 {
		t.Errorf("unrestricted: %+v", res)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestConcurrentExecutionsGetTheirOwnResults(t *testing.T) {
	s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{Concurrent: 7, Queued: 64})
	homes := []*home.Home{newHome(t, "a"), newHome(t, "b")}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			x, err := s.Start(t.Context(), homes[i%2], execution.Request{
				Code: fmt.Sprintf("print %d\nsleep 1ms\nget q", i), Vars: json.RawMessage(fmt.Sprintf(`{"q": %d}`, i))})
			if err != nil {
				t.Error(err)
				return
			}
			e, err := x.Next(t.Context())
			if err != nil || e.Done == nil || string(e.Done.Value) != fmt.Sprint(i) || e.Done.Output[0] != fmt.Sprint(i) {
				t.Errorf("%d: %+v, %v", i, e.Done, err)
			}
		})
	}
	all.Wait()
	if d := cmp.Diff(execution.Stats{Ended: map[string]int64{"completed": 64}}, s.Stats()); d != "" {
		t.Error(d)
	}
}

func TestTimeLimitExcludesQueue(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{}, fake.Config{OpenDelay: 5 * time.Second}, admit.Config{Concurrent: 1, Wait: time.Hour})
		first := s.start(t, t.Context(), home, execution.Request{Code: "sleep 20s", Timeout: 25 * time.Second})
		second := s.start(t, t.Context(), home, execution.Request{Code: "print so far\nsleep 1h"})
		if r := done(t, first); !r.Success() || r.Elapsed != 20*time.Second {
			t.Errorf("first: %+v", r)
		}
		r := done(t, second)
		if r.ErrorType != "timeout" || r.Error != "Execution timed out after 30 seconds" || r.Elapsed != 30*time.Second ||
			r.Hint != "do less in one call, or set timeout_seconds up to 300" || r.Output[0] != "so far" {
			t.Errorf("second: %+v", r)
		}
	})
}

func TestCallerContextEndsExecution(t *testing.T) {
	home := newHome(t, "a")
	for _, tc := range []struct{ name, ahead string }{{"running", ""}, {"waiting", "sleep 1h"}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{Concurrent: 1, Wait: time.Hour})
				blocker, unblock := context.WithCancel(t.Context())
				if tc.ahead != "" {
					s.start(t, blocker, home, execution.Request{Code: tc.ahead, Timeout: time.Minute})
					synctest.Wait()
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				x := s.start(t, ctx, home, execution.Request{Code: "sleep 1h"})
				began := time.Now()
				r := done(t, x)
				if r.Status != sandbox.Cancelled || r.ErrorType != "cancelled" || time.Since(began) != time.Second ||
					r.ExecutionID != x.ID() {
					t.Errorf("after %v: %+v", time.Since(began), r)
				}
				unblock()
			})
		})
	}
}

func TestNextContextDoesNotEndExecution(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := defaultSetup(t)
		x := s.start(t, t.Context(), home, execution.Request{Code: "sleep 5s\nresult 1"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if e, err := x.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", e, err)
		}
		if r := done(t, x); string(r.Value) != "1" {
			t.Errorf("%+v", r)
		}
	})
}

func TestSlowReaderGetsLatestProgressAndDone(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := defaultSetup(t)
		var code strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&code, "call progress {\"done\": %d, \"total\": 1000, \"message\": \"row\"}\n", i)
		}
		code.WriteString("sleep 10s\ncall progress {\"done\": 1000, \"total\": null}\nresult 1")
		x := s.start(t, t.Context(), home, execution.Request{Code: code.String()})
		synctest.Wait()
		e, err := x.Next(t.Context())
		if err != nil || e.Progress == nil || *e.Progress != (live.Progress{Done: 999, Total: 1000, Message: "row"}) {
			t.Fatalf("%+v, %v", e.Progress, err)
		}
		time.Sleep(time.Minute)
		if e, err = x.Next(t.Context()); err != nil || e.Progress == nil || *e.Progress != (live.Progress{Done: 1000}) {
			t.Fatalf("%+v, %v", e.Progress, err)
		}
		for range 2 {
			if e, err = x.Next(t.Context()); err != nil || e.Done == nil || string(e.Done.Value) != "1" {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	})
}

func TestProgressIsRateLimited(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{ProgressEvery: time.Second}, fake.Config{}, admit.Config{})
		code := strings.Repeat("call progress {\"done\": 1}\nsleep 10ms\n", 505) + "result 1"
		x := s.start(t, t.Context(), home, execution.Request{Code: code})
		events := 0
		for {
			e, err := x.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if e.Done != nil {
				break
			}
			events++
		}
		if events != 7 {
			t.Errorf("%d progress events in 5 s, want one at the start, one per second and one at the end", events)
		}
	})
}

func TestAttach(t *testing.T) {
	a, b := newHome(t, "a"), newHome(t, "b")
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{RetainEnded: 2, RetainFor: time.Minute}, fake.Config{}, admit.Config{})
		running := s.start(t, t.Context(), a, execution.Request{Code: "sleep 5s\nresult 1"})
		other, err := s.Attach(t.Context(), a, running.ID(), question.Answer{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Attach(t.Context(), b, running.ID(), question.Answer{}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("another tenant: %v", err)
		}
		if r := done(t, other); string(r.Value) != "1" {
			t.Errorf("attached: %+v", r)
		}
		find := func(id string) bool {
			_, err := s.Attach(t.Context(), a, id, question.Answer{})
			return err == nil
		}
		if !find(running.ID()) || find("exec_x") {
			t.Error("an ended execution is not found, or one that never was is")
		}
		time.Sleep(time.Minute)
		if find(running.ID()) {
			t.Error("an execution is still found a minute after its end")
		}
		var ids []string
		for range 3 {
			ids = append(ids, s.run(t, a, "result 1").ExecutionID)
		}
		if find(ids[0]) || !find(ids[1]) || !find(ids[2]) {
			t.Error("the last two executions are not retained")
		}
	})
}

func TestCloseWaitsThenCancels(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := defaultSetup(t)
		short := s.start(t, t.Context(), home, execution.Request{Code: "sleep 1s\nresult 1"})
		long := s.start(t, t.Context(), home, execution.Request{Code: "sleep 20s"})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Close(ctx); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if r := done(t, short); !r.Success() {
			t.Errorf("short: %+v", r)
		}
		if r := done(t, long); r.ErrorType != "cancelled" || !strings.Contains(r.Error, "stopping") {
			t.Errorf("long: %+v", r)
		}
		if _, err := s.Start(t.Context(), home, execution.Request{Code: "result 1"}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestStartReturnsErrorForInvalidRequest(t *testing.T) {
	home := newHome(t, "a")
	next := func(s setup) error {
		_, err := s.start(t, t.Context(), home, execution.Request{Code: "result 1"}).Next(t.Context())
		return err
	}
	t.Run("no sandbox", func(t *testing.T) {
		s := newSetup(t, execution.Config{}, fake.Config{OpenError: errors.New("open /host/secret/path: denied")}, admit.Config{})
		err := next(s)
		if fault.KindOf(err) != fault.Unavailable || strings.Contains(fault.Message(err)+fault.Hint(err), "secret") {
			t.Errorf("%v: %s", err, fault.Message(err))
		}
		if d := cmp.Diff(map[string]int64{"not_run": 1}, s.Stats().Ended); d != "" {
			t.Error(d)
		}
	})
	t.Run("a sandbox error with a hint", func(t *testing.T) {
		broken := fault.New(fault.Unavailable, "user namespaces are off").WithHint("turn them on")
		if err := next(newSetup(t, execution.Config{}, fake.Config{OpenError: broken}, admit.Config{})); fault.Hint(err) != "turn them on" {
			t.Errorf("%v", err)
		}
	})
	t.Run("a full queue", func(t *testing.T) {
		s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{Concurrent: 1, Queued: -1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		blocker := s.start(t, ctx, home, execution.Request{Code: "call progress {\"done\": 1}\nsleep 1h"})
		if _, err := blocker.Next(t.Context()); err != nil { // it is running now
			t.Fatal(err)
		}
		if err := next(s); fault.KindOf(err) != fault.Exhausted || !strings.Contains(fault.Message(err), "try again in") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a sandbox that opens for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSetup(t, execution.Config{OpenWait: 3 * time.Second}, fake.Config{OpenDelay: time.Hour}, admit.Config{})
			x := s.start(t, t.Context(), home, execution.Request{Code: "result 1"})
			if e, err := x.Next(t.Context()); fault.KindOf(err) != fault.Unavailable ||
				fault.Message(err) != "no sandbox could be opened within 3s" {
				t.Errorf("%+v, %v", e, err)
			}
		})
	})
}

func TestValuesSurviveJSON(t *testing.T) {
	home := newHome(t, "a")
	req := execution.Request{Code: "get x\nimage image/png AQI=\nprint y", Vars: json.RawMessage(`{"x":[1]}`), Timeout: 30 * time.Second,
		MemoryMB: 100}
	var again execution.Request
	roundTrip(t, req, &again)
	if d := cmp.Diff(req, again); d != "" {
		t.Error(d)
	}
	event, err := defaultSetup(t).start(t, t.Context(), home, again).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var event2 execution.Event
	roundTrip(t, event, &event2)
	if d := cmp.Diff(event, event2); d != "" || len(event2.Done.Images) != 1 {
		t.Error(d)
	}
	progress, progress2 := execution.Event{Progress: &live.Progress{Done: 1, Total: 2, Message: "m"}}, execution.Event{}
	roundTrip(t, progress, &progress2)
	if d := cmp.Diff(progress, progress2); d != "" {
		t.Error(d)
	}
}

func roundTrip(t *testing.T, from, to any) {
	t.Helper()
	b, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
}

func TestCheckPython(t *testing.T) {
	home := newHome(t, "a")
	for _, tc := range []struct{ name, script, code, want string }{
		{"compiles", "result null", "def f(): pass", ""},
		{"does not compile", `result {"line": 3, "message": "invalid syntax"}`, "x", "code does not compile: line 3: invalid syntax"},
		{"no line", `result {"line": 0, "message": "too deep"}`, "x", "code does not compile: too deep"},
		{"a token that cannot be written", `result {"line": 3, "message": "the token is there", "token": true}`, "x",
			"code line 3: the token is there"},
		{"no code", `result {"source": " "}`, "x", "code is empty; pass the Python to run"},
		{"takes for ever", "sleep 1h", "x", "code could not be compiled: Execution timed out after 10 seconds"},
		{"fails at length", "raise X " + strings.Repeat("x", 3000), "x", "code could not be compiled: " + strings.Repeat("x", 300)},
		{"empty", "result null", " ", "code is empty; pass the Python to run"},
		{"the compiler receives the code", "get source", "x", "unreadable"},
		{"with its tokens", "get tokens", "x", "unreadable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t, execution.Config{}, fake.Config{Scripts: map[string]string{pycode.CompileCode: tc.script}}, admit.Config{})
				got, err := s.Code.Compile(t.Context(), home, tc.code, map[string]string{"line": "x"})
				switch {
				case tc.want == "" && (err != nil || got.Source != tc.code):
					t.Error(got, err)
				case len(s.Stats().Ended) != 0:
					t.Errorf("counted as an execution: %+v", s.Stats())
				case tc.want == "unreadable":
					if err == nil || !strings.Contains(err.Error(), "string") {
						t.Errorf("the compiler was not given it: %v", err)
					}
				case tc.want != "" && (fault.KindOf(err) != fault.Invalid || fault.Message(err) != tc.want):
					t.Errorf("%v", err)
				}
			})
		})
	}
	if got := listFiles(t, home); len(got) != 0 {
		t.Errorf("wrote %v", got)
	}
}

func TestCheckPythonWritesNothingToWorkspace(t *testing.T) {
	home := newHome(t, "a")
	long := "x = '" + strings.Repeat("ada@example.org ", 5000) + "'"
	for code, want := range map[string]string{long: "", strings.Repeat(long, 20): "code has 1600120 bytes; at most 1048576 are allowed"} {
		scripts := map[string]string{pycode.CompileCode: `result {"source": "` + code + `"}`}
		s := newSetup(t, execution.Config{}, fake.Config{Scripts: scripts}, admit.Config{})
		got, err := s.Code.Compile(t.Context(), home, "x", nil)
		if got.Source != code && want == "" || want != "" && fault.Message(err) != want {
			t.Errorf("%d bytes, %v", len(got.Source), err)
		}
		if files := listFiles(t, home); len(files) != 0 {
			t.Errorf("wrote %v", files)
		}
	}
}

func TestExecutionIsAuditedBeforeDone(t *testing.T) {
	var mu sync.Mutex
	var lines []audit.Line
	s := newSetup(t, execution.Config{Audit: func(l audit.Line) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, l)
	}}, fake.Config{}, admit.Config{})
	home := newHome(t, "a")
	var ids []string
	for _, req := range []execution.Request{{Code: "result 1"}, {Code: "raise KeyError 'x'", SessionID: "s"}} {
		ids = append(ids, done(t, s.start(t, t.Context(), home, req)).ExecutionID)
	}
	_, _ = s.Code.Compile(t.Context(), home, "x = 1", nil) // an internal execution; the result of the fake does not matter
	mu.Lock()
	defer mu.Unlock()
	want := []audit.Line{
		{Kind: audit.Execution, Tenant: home.ID(), Execution: ids[0], Outcome: "completed"},
		{Kind: audit.Execution, Tenant: home.ID(), Execution: ids[1], Outcome: "raised", Session: "s"},
	}
	for i := range lines {
		lines[i].Duration = 0
	}
	if diff := cmp.Diff(want, lines, cmp.Comparer(func(a, b tenant.ID) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}
