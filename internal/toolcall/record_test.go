package toolcall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// restarts is a rig whose process can end and be started again with the same data.
type restarts struct {
	*server
	dir   string
	cat   *catalog.Catalog
	stack *toolcall.Stack
	proc  *journal.Process
}

func newRestarts(t testing.TB) *restarts {
	c := &restarts{dir: t.TempDir(), server: &server{}}
	var err error
	c.cat, err = catalog.Open(catalog.Config{Dir: filepath.Join(c.dir, "catalog"),
		Servers: []catalog.Configured{{Name: "crm", Trusted: true}}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, c.cat, "Sends.")
	c.answer = func(tool.Call) (tool.Result, error) { return text(`{"id": 5}`), nil }
	c.stack = toolcall.New(toolcall.Config{Catalog: c.cat, Upstream: c.server})
	c.start(t)
	return c
}

// start starts a new process with the same data; the previous one has ended.
func (c *restarts) start(t testing.TB) {
	t.Helper()
	if c.proc != nil {
		c.proc.Close()
	}
	c.proc = journal.NewProcess(filepath.Join(c.dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	homes, err := home.Open(t.Context(), home.Config{Root: filepath.Join(c.dir, "data"), Process: c.proc, Approvals: approvals(0)})
	if err != nil {
		t.Fatal(err)
	}
	if c.home, err = homes.Acquire(t.Context(), tenant.Local); err != nil {
		t.Fatal(err)
	}
	home := c.home
	t.Cleanup(func() { home.Release(context.Background()); homes.Close() })
	c.calls = nil
}

func (c *restarts) caller(t testing.TB, r *journal.Record) tool.Caller {
	return c.stack.For(toolcall.Owner{Home: c.home, Gate: open(t), Run: r})
}

func nothing() ([]byte, error) { return nil, nil }

func (c *restarts) first(t *testing.T) tool.Caller {
	return c.caller(t, c.home.Journal.NewRecord("exec_1", nothing, false))
}

func (c *restarts) resume(t *testing.T) tool.Caller {
	t.Helper()
	c.start(t)
	r, _, err := c.home.Journal.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	return c.caller(t, r)
}

func TestLargeAnswersAreRecordedBeforeTheNextCall(t *testing.T) {
	c := newRestarts(t)
	first := c.first(t)
	rows := `{"rows": ["` + strings.Repeat("ä\\u2028<b>", 20<<10) + `"]}`
	c.answer = func(tool.Call) (tool.Result, error) {
		res := text("summary " + strings.Repeat("x", 70<<10))
		res.Structured = []byte(rows)
		return res, nil
	}
	calls := []tool.Call{call("crm", "read", `{}`), call("crm", "send", `{"to":"ann"}`), call("crm", "send", `{"to":"bob"}`)}
	for _, call := range calls {
		if _, err := first.Call(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	again := c.resume(t)
	for i, call := range calls[:2] { // the third answer may not be on disk yet
		res, err := again.Call(t.Context(), call)
		if v, ok := res.Value(); err != nil || !ok || string(v) != rows || !strings.HasPrefix(res.Text(), "summary x") {
			t.Errorf("call %d gave %.80s, %v", i+1, v, err)
		}
	}
	if len(c.calls) != 0 {
		t.Errorf("the server was called again: %d calls", len(c.calls))
	}
}

func TestReplayDoesNotRepeatAnsweredCalls(t *testing.T) {
	c := newRestarts(t)
	first := c.first(t)
	answers := []string{`{"id": 1}`, `{"id": 2}`, `{"id": 3}`}
	c.answer = func(tool.Call) (tool.Result, error) {
		res := text(answers[len(c.calls)-1])
		res.Structured = []byte(answers[len(c.calls)-1])
		return res, nil
	}
	for _, call := range []tool.Call{call("crm", "read", `{}`), call("crm", "send", `{"to":"ann"}`),
		call("crm", "send", `{ "to" : "ann" }`)} {
		if _, err := first.Call(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	again := c.resume(t)
	for i, call := range []tool.Call{call("crm", "read", `{}`), call("crm", "send", `{"to":"ann"}`), call("crm", "send", `{"to":"ann"}`)} {
		res, err := again.Call(t.Context(), call)
		if v, ok := res.Value(); err != nil || !ok || string(v) != answers[i] || res.Text() != answers[i] {
			t.Errorf("call %d gave %s, %v", i+1, v, err)
		}
	}
	if len(c.calls) != 0 {
		t.Errorf("the server was called again: %+v", c.calls)
	}
	c.answer = func(tool.Call) (tool.Result, error) { return text(`4`), nil }
	if res, err := again.Call(t.Context(), call("crm", "send", `{"to":"ann"}`)); err != nil || res.Text() != "4" || len(c.calls) != 1 ||
		c.calls[0].Number != 4 {
		t.Errorf("a third of the same gave %+v, %v, %+v", res, err, c.calls)
	}
}

func TestReplayReturnsRecordedFailure(t *testing.T) {
	c := newRestarts(t)
	first := c.first(t)
	c.answer = func(called tool.Call) (tool.Result, error) {
		if string(called.Args) == `{"to":"broken"}` {
			return tool.Result{}, fault.New(fault.Unavailable, "the connection broke")
		}
		return tool.Result{}, &tool.Failure{Ref: called.Ref, Message: "no such person", Data: []byte(`{"code":4}`),
			Answer: text("no such person")}
	}
	asks := []tool.Call{call("crm", "send", `{"to":"ann"}`), call("crm", "send", `{"to":"broken"}`), call("crm", "send", `{"to":"bob"}`)}
	var want []string
	for _, a := range asks {
		_, err := first.Call(t.Context(), a)
		want = append(want, err.Error())
	}
	again := c.resume(t)
	for i, a := range asks {
		if _, err := again.Call(t.Context(), a); err == nil || err.Error() != want[i] {
			t.Errorf("it failed with %q, and now with %v", want[i], err)
		}
	}
	if len(c.calls) != 0 {
		t.Errorf("the server was called again: %+v", c.calls)
	}
}

// interrupt makes a call during which the process ends.
func (c *restarts) interrupt(t *testing.T, caller tool.Caller, of tool.Call) {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	c.answer = func(tool.Call) (tool.Result, error) { kill(); return tool.Result{}, errors.New("nobody waits") }
	if _, err := caller.Call(ctx, of); err == nil {
		t.Fatal("it was answered")
	}
	c.answer = func(tool.Call) (tool.Result, error) { return text(`"now"`), nil }
}

// The outcome of a call without an answer depends on its tool: "pay" may change something, "set" is
// idempotent, "look" reads.
func TestOutcomesOfCallsWithoutAnAnswer(t *testing.T) {
	for _, test := range []struct {
		err            error
		pay, set, look string // outcomes
		retryable      bool   // of "pay"
	}{
		{fault.New(fault.Exhausted, "did not respond within 1m0s"), tool.Unknown, tool.Failed, tool.Failed, false},
		{context.Canceled, tool.Unknown, tool.Failed, tool.Failed, false},
		{&tool.Failure{Message: "answered 502", Status: 502, Unknown: true}, tool.Unknown, tool.Failed, tool.Failed, false},
		{&tool.NotSent{Err: fault.New(fault.Unavailable, "is not installed")}, tool.NotMade, tool.NotMade, tool.NotMade, true},
		{&tool.NotSent{Err: fault.New(fault.Denied, "has no token")}, tool.NotMade, tool.NotMade, tool.NotMade, false},
		{&tool.Failure{Message: "no such person"}, tool.Failed, tool.Failed, tool.Failed, false},
	} {
		c := newRestarts(t)
		c.putTools(t)
		var lines []audit.Line
		c.stack = toolcall.New(toolcall.Config{Catalog: c.cat, Upstream: c.server, Audit: func(l audit.Line) { lines = append(lines, l) }})
		c.answer = func(tool.Call) (tool.Result, error) { return tool.Result{}, test.err }
		check := func(caller tool.Caller, name, want string) {
			t.Helper()
			_, err := caller.Call(t.Context(), call("crm", name, `{"to":"ann"}`))
			f, ok := errors.AsType[*tool.Failure](err)
			if !ok || f.Outcome() != want || f.Unknown != strings.Contains(f.Message, "unknown whether crm."+name+" took effect") {
				t.Errorf("%v: %s: %#v", test.err, name, err)
			}
			if ok && f.Retryable != (test.retryable || name != "pay" && test.pay == tool.Unknown) {
				t.Errorf("%v: %s: retryable: %t", test.err, name, f.Retryable)
			}
		}
		first := c.first(t)
		check(first, "look", test.look)
		check(first, "set", test.set)
		check(first, "pay", test.pay)
		var got []string
		for _, l := range lines {
			got = append(got, l.Outcome)
		}
		entries, err := c.home.Journal.List(t.Context(), 10)
		if d := cmp.Diff([]string{test.look, test.set, test.pay}, got); d != "" || err != nil || len(entries) != 2 ||
			string(entries[0].Outcome) != test.pay || string(entries[1].Outcome) != test.set {
			t.Errorf("%v: %s\n%+v, %v", test.err, d, entries, err)
		}
		again := c.resume(t)
		check(again, "look", test.look)
		check(again, "set", test.set)
		check(again, "pay", test.pay)
		if len(c.calls) != 0 {
			t.Errorf("%v: the server was called again: %+v", test.err, c.calls)
		}
	}
}

func (c *restarts) putTools(t *testing.T) {
	t.Helper()
	yes := true
	if _, err := c.cat.Put(t.Context(), "crm", catalog.Listing{Tools: []tool.Definition{
		{Ref: tool.Ref{Server: "crm", Tool: "pay"}, Input: []byte(`true`)},
		{Ref: tool.Ref{Server: "crm", Tool: "set"}, Input: []byte(`true`), Hints: tool.Hints{Idempotent: &yes}},
		{Ref: tool.Ref{Server: "crm", Tool: "look"}, Input: []byte(`true`), Hints: tool.Hints{ReadOnly: &yes}},
	}}); err != nil {
		t.Fatal(err)
	}
}

func TestReplayDoesNotRepeatUnknownCalls(t *testing.T) {
	c := newRestarts(t)
	c.interrupt(t, c.first(t), call("crm", "send", `{"to":"ann"}`))
	for range 2 { // the second run ends too
		again := c.resume(t)
		_, err := again.Call(t.Context(), call("crm", "send", `{"to":"ann"}`))
		if f, ok := errors.AsType[*tool.Failure](err); !ok || !strings.Contains(f.Message, "it is unknown whether crm.send took effect") {
			t.Errorf("it gave %v", err)
		}
		if len(c.calls) != 0 {
			t.Fatalf("the server was called again: %+v", c.calls)
		}
		if _, err := again.Call(t.Context(), call("crm", "send", `{"to":"bob"}`)); err != nil {
			t.Error(err)
		}
	}
}

func TestReplayMakesCallsThatWereNotSent(t *testing.T) {
	c := newRestarts(t)
	first := c.first(t)
	ctx, kill := context.WithCancel(t.Context())
	c.answer = func(tool.Call) (tool.Result, error) {
		kill() // while the call waits for its server
		return tool.Result{}, &tool.NotSent{Err: ctx.Err()}
	}
	if _, err := first.Call(ctx, call("crm", "send", `{"to":"ann"}`)); err == nil {
		t.Fatal("it was answered")
	}
	c.answer = func(tool.Call) (tool.Result, error) { return text(`"now"`), nil }
	for want := 1; want >= 0; want-- { // the second replay finds the answer
		res, err := c.resume(t).Call(t.Context(), call("crm", "send", `{"to":"ann"}`))
		if err != nil || res.Text() != `"now"` || len(c.calls) != want {
			t.Errorf("%q, %v after %d calls, want %d", res.Text(), err, len(c.calls), want)
		}
	}
}

// The begin of a call is synced before the call is made. Its end is synced later, and lost with
// the power: what is on disk then is what there was during the call.
func TestReplayDoesNotRepeatCallsWithLostEnd(t *testing.T) {
	c := newRestarts(t)
	lost := &restarts{dir: t.TempDir(), server: c.server, cat: c.cat, stack: c.stack}
	c.answer = func(tool.Call) (tool.Result, error) {
		return text(`"sent"`), os.CopyFS(lost.dir, os.DirFS(c.dir))
	}
	if _, err := c.first(t).Call(t.Context(), call("crm", "send", `{"to":"ann"}`)); err != nil {
		t.Fatal(err)
	}
	again := lost.resume(t)
	_, err := again.Call(t.Context(), call("crm", "send", `{"to":"ann"}`))
	if f, ok := errors.AsType[*tool.Failure](err); !ok || !f.Unknown || len(c.calls) != 0 {
		t.Errorf("it gave %v, and the server was called: %+v", err, c.calls)
	}
}

// The person is asked about an unknown call, and decides: by a function of the call.
func TestPersonDecidesAboutUnknownCall(t *testing.T) {
	for _, row := range []struct {
		tool.Decision
		want  string // text of the error, or the value
		calls int
	}{
		{tool.Decision{}, "it is unknown whether call 1, of crm.send, took effect", 0},
		{tool.Decision{Outcome: tool.Stop}, "the execution was stopped", 0},
		{tool.Decision{Outcome: tool.TookEffect}, "null", 0},
		{tool.Decision{Outcome: tool.TookEffect, Answer: []byte(`{"id":5}`)}, `{"id":5}`, 0},
		{tool.Decision{Outcome: tool.NoEffect}, `sent`, 1},
	} {
		c := newRestarts(t)
		c.interrupt(t, c.first(t), call("crm", "send", `{"to":"ann"}`))
		c.answer = func(tool.Call) (tool.Result, error) { return text(`"sent"`), nil }
		again := c.resume(t)
		ask := call("crm", "send", `{"to":"ann"}`)
		ask.Decide = func(_ context.Context, number int, ref tool.Ref, args json.RawMessage) (tool.Decision, error) {
			if number != 1 || ref != ask.Ref || string(args) != `{"to":"ann"}` {
				t.Errorf("asked about call %d of %s with %s", number, ref, args)
			}
			return row.Decision, nil
		}
		res, err := again.Call(t.Context(), ask)
		got := ""
		if err != nil {
			got = err.Error()
		} else if v, ok := res.Value(); ok {
			got = string(v)
		}
		if !strings.Contains(got, row.want) || len(c.calls) != row.calls {
			t.Errorf("%+v: got %s, and the server was called %d times", row.Decision, got, len(c.calls))
		}
	}
}

func TestReplayRepeatsUnknownIdempotentCalls(t *testing.T) {
	c := newRestarts(t)
	yes := true
	if _, err := c.cat.Put(t.Context(), "crm", catalog.Listing{Tools: []tool.Definition{
		{Ref: tool.Ref{Server: "crm", Tool: "set"}, Input: []byte(`true`), Hints: tool.Hints{Idempotent: &yes}},
		{Ref: tool.Ref{Server: "crm", Tool: "read"}, Input: []byte(`{"type":"object"}`), Hints: tool.Hints{ReadOnly: &yes}},
	}}); err != nil {
		t.Fatal(err)
	}
	first := c.first(t)
	c.interrupt(t, first, call("crm", "read", `{}`)) // in one thread
	c.interrupt(t, first, call("crm", "set", `{"n":1}`))
	again := c.resume(t)
	for _, of := range []tool.Call{call("crm", "read", `{}`), call("crm", "set", `{"n":1}`)} {
		if res, err := again.Call(t.Context(), of); err != nil || res.Text() != `"now"` {
			t.Errorf("%s gave %v, %v", of.Ref, res, err)
		}
	}
	again = c.resume(t)
	if _, err := again.Call(t.Context(), call("crm", "read", `{}`)); err != nil {
		t.Error(err)
	}
	if _, err := again.Call(t.Context(), call("crm", "set", `{"n":1}`)); err != nil || len(c.calls) != 0 {
		t.Errorf("the answered call was repeated: %v, %+v", err, c.calls)
	}
}

func TestReplayReportsDivergence(t *testing.T) {
	c := newRestarts(t)
	first := c.first(t)
	for _, to := range []string{"ann", "bob"} {
		if _, err := first.Call(t.Context(), call("crm", "send", `{"to":"`+to+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	again := c.resume(t)
	_, err := again.Call(t.Context(), call("crm", "send", `{"to":"eve"}`))
	if _, ok := errors.AsType[*journal.Divergence](err); !ok || len(c.calls) != 0 || !strings.Contains(fault.Message(err),
		`another value of "to"`) {
		t.Errorf("%v, %+v", err, c.calls)
	}
}

// The record contains the server's answer, which is redacted on each replay.
func TestRecordedAnswerIsRedactedInReplay(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := redact.New(redact.Config{Mode: redact.Strict, Scanner: scanner})
	if err != nil {
		t.Fatal(err)
	}
	c := newRestarts(t)
	c.answer = func(tool.Call) (tool.Result, error) { return text(`"ada@example.com"`), nil }
	gate := func() *redact.Gate {
		return rules.For(redact.Owner{Tenant: tenant.Local, Local: redact.NewLocalTokens()})
	}
	first := c.stack.For(toolcall.Owner{Home: c.home, Gate: gate(), Run: c.home.Journal.NewRecord("exec_1", nothing, false)})
	if res, err := first.Call(t.Context(), call("crm", "send", `{"to":"ann"}`)); err != nil || !strings.Contains(res.Text(), "[EMAIL_") {
		t.Fatalf("the first run was given %v, %v", res, err)
	}
	c.start(t)
	r, _, err := c.home.Journal.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	again := c.stack.For(toolcall.Owner{Home: c.home, Gate: gate(), Run: r})
	if res, err := again.Call(t.Context(), call("crm", "send", `{"to":"ann"}`)); err != nil || !strings.Contains(res.Text(), "[EMAIL_") ||
		len(c.calls) != 0 {
		t.Errorf("the second was given %v, %v", res, err)
	}
}

// BenchmarkRecorded measures the cost of an execution record for its calls, in addition to that
// of calls that write, which all have. Use the median: a commit waits
// for the disk.
// constant answers each call at once; other servers of tests look at the record during a call.
type constant struct{}

func (constant) Call(context.Context, tool.Call) (tool.Result, error) { return text(`{"id": 5}`), nil }

func BenchmarkRecorded(b *testing.B) {
	for _, name := range []string{"read", "send"} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/run=%t", name, with), func(b *testing.B) {
				c := newRestarts(b)
				c.stack = toolcall.New(toolcall.Config{Catalog: c.cat, Upstream: constant{}})
				var r *journal.Record
				if with {
					r = c.home.Journal.NewRecord("exec_1", nothing, false)
				}
				caller := c.caller(b, r)
				took := make([]time.Duration, 0, b.N)
				for b.Loop() {
					began := time.Now()
					if _, err := caller.Call(b.Context(), call("crm", name, `{"to":"ann"}`)); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			})
		}
	}
}

// A result that cannot be kept was answered: in the error, the journal and the audit log. The call is
// not repeated, also if the execution ended while the result waited for memory.
func TestCallWhoseAnswerCannotBeKeptIsNotRepeated(t *testing.T) {
	for _, at := range []string{"held by the stack", "held by the server", "ended"} {
		c := newRestarts(t)
		c.putTools(t)
		var lines []audit.Line
		c.stack = toolcall.New(toolcall.Config{Catalog: c.cat, Upstream: c.server, Audit: func(l audit.Line) { lines = append(lines, l) }})
		full := fault.New(fault.Exhausted, "the memory is used up")
		c.answer = func(tool.Call) (tool.Result, error) { return text("paid"), nil }
		if at == "held by the server" {
			c.answer = func(tool.Call) (tool.Result, error) { return tool.Result{}, &tool.NotKept{Err: full} }
		}
		ctx, end := context.WithCancel(t.Context())
		pay := call("crm", "pay", `{"to":"ann"}`)
		pay.Hold = func(ctx context.Context, _ int64) error {
			if at == "ended" {
				end()
			}
			return full
		}
		check := func(caller tool.Caller) {
			t.Helper()
			_, err := caller.Call(ctx, pay)
			f, ok := errors.AsType[*tool.Failure](err)
			if want := "crm.pay was called, but its answer could not be kept: the memory is used up. The call took effect"; !ok ||
				f.Outcome() != tool.Made || f.Retryable || !strings.Contains(f.Message, want) {
				t.Errorf("%s: %#v", at, err)
			}
		}
		check(c.first(t))
		entries, err := c.home.Journal.List(t.Context(), 10)
		if err != nil || len(entries) != 1 || entries[0].Outcome != journal.Answered || lines[0].Outcome != string(journal.Answered) {
			t.Errorf("%s: %+v, %v, %+v", at, entries, err, lines)
		}
		ctx = t.Context()
		if check(c.resume(t)); len(c.calls) != 0 {
			t.Errorf("%s: the server was called again", at)
		}
		end()
	}
}
