package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// daemon is a process with a log in dir.
type daemon struct {
	*journal.Log
	*journal.Process
	path string
}

var sealing = bytes.Repeat([]byte{7}, 32)

func start(t testing.TB, dir string) daemon {
	t.Helper()
	return startWith(t, dir, sealing, tenant.Local, time.Minute)
}

func startWith(t testing.TB, dir string, key []byte, owner tenant.ID, patience time.Duration) daemon {
	t.Helper()
	path := filepath.Join(dir, "t.db")
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	p := journal.NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) { return key, nil })
	l := journal.New(journal.Config{DB: db, Tenant: owner, Process: p, ReorderTimeout: patience})
	t.Cleanup(func() { l.Close(); p.Close(); db.Close() })
	return daemon{l, p, path}
}

func ask(name, args string) journal.HostCall {
	return journal.HostCall{Ref: tool.Ref{Server: "crm", Tool: name}, Args: json.RawMessage(args)}
}

func nothing() ([]byte, error) { return nil, nil }

func value(v string) journal.Answer { return journal.Answer{Value: json.RawMessage(v)} }

// next requests a call and fails the test on an error.
func next(t testing.TB, r *journal.Record, a journal.HostCall) journal.RecordedCall {
	t.Helper()
	c, err := r.Next(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t testing.TB, r *journal.Record, a journal.HostCall, answer string) {
	t.Helper()
	r.SetAnswer(next(t, r, a).Number, value(answer))
}

func begin(t testing.TB, r *journal.Record, a journal.HostCall) int {
	t.Helper()
	c := next(t, r, a)
	if err := r.Begin(t.Context(), tool.Call{Ref: a.Ref, Execution: "exec_1", Args: a.Args, Number: c.Number}); err != nil {
		t.Fatal(err)
	}
	return c.Number
}

func write(t testing.TB, r *journal.Record, a journal.HostCall, answer string) {
	t.Helper()
	v := value(answer)
	if err := r.Done(t.Context(), begin(t, r, a), journal.Answered, &v); err != nil {
		t.Fatal(err)
	}
}

func resume(t testing.TB, d daemon, id string) *journal.Record {
	t.Helper()
	r, _, err := d.OpenRecord(t.Context(), id, func([]byte) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gives expects a recorded answer.
func gives(t testing.TB, r *journal.Record, a journal.HostCall, want string) {
	t.Helper()
	if c := next(t, r, a); c.Answer == nil || string(c.Answer.Value) != want {
		t.Errorf("%s %s gave %+v, want %s", a, a.Args, c, want)
	}
}

func TestReplayReturnsRecordedAnswers(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", func() ([]byte, error) { return []byte("the request"), nil }, false)
	r.AddClockReadings(0, []int64{1, 2})
	read(t, r, ask("read", `{"id":1}`), `"ann"`)
	read(t, r, ask("read", `{"id":1}`), `"bob"`) // the answer had changed
	if left, err := start(t, dir).ListUnfinished(t.Context()); len(left) != 0 || err != nil {
		t.Errorf("a run that only read is on disk: %+v, %v", left, err)
	}
	r.AddClockReadings(0, []int64{3})
	write(t, r, ask("send", `{"to":"bob"}`), `"sent"`)
	asked := next(t, r, ask("read", `{"id":3}`)) // a read without an answer when the next call begins
	begin(t, r, ask("send", `{"to":"eve"}`))
	r.SetAnswer(asked.Number, value(`"lost"`))
	read(t, r, ask("read", `{"id":9}`), `"lost"`) // no later call depends on it
	first.Process.Close()                         // as by kill -9

	second := start(t, dir)
	left, err := second.ListUnfinished(t.Context())
	if err != nil || len(left) != 1 || left[0].Execution != "exec_1" || left[0].State != journal.Running || left[0].Answered != 3 ||
		left[0].Unknown != 1 ||
		fmt.Sprint(left[0].Tools) != "[crm.read crm.send]" || left[0].Changed.Before(left[0].Created) {
		t.Errorf("unfinished: %+v, %v", left, err)
	}
	r, request, err := second.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	if string(request) != "the request" || fmt.Sprint(r.ClockReadings()) != "[1 2 3]" {
		t.Errorf("the request is %q, the clock read %v", request, r.ClockReadings())
	}
	gives(t, r, ask("read", `{"id":1}`), `"ann"`)
	gives(t, r, ask("read", `{"id":1}`), `"bob"`)
	gives(t, r, ask("send", `{"to":"bob"}`), `"sent"`)
	if c := next(t, r, ask("read", `{"id":3}`)); c.Answer != nil || c.Begun {
		t.Errorf("call without an answer: %+v", c)
	}
	if c := next(t, r, ask("send", `{"to":"eve"}`)); c.Answer != nil || !c.Begun {
		t.Errorf("call in progress: %+v", c)
	}
	if c := next(t, r, ask("read", `{"id":9}`)); c.Answer != nil || c.Begun {
		t.Errorf("call that was not on disk: %+v", c)
	}
}

func TestReplayReturnsRecordedErrors(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", nothing, false)
	failed, _ := journal.NewAnswer(nil, &tool.Failure{Ref: tool.Ref{Server: "crm", Tool: "send"}, Message: "no",
		Data: json.RawMessage(`{"code":4}`)})
	denied, _ := journal.NewAnswer(nil, fault.New(fault.Denied, "not allowed").WithHint("ask"))
	if err := r.Done(t.Context(), begin(t, r, ask("send", `{}`)), journal.Failed, &failed); err != nil {
		t.Fatal(err)
	}
	r.SetAnswer(next(t, r, ask("drop", `{}`)).Number, denied)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.Process.Close()

	r = resume(t, start(t, dir), "exec_1")
	got, ok := errors.AsType[*tool.Failure](next(t, r, ask("send", `{}`)).Answer.Err())
	if !ok || got.Message != "no" || string(got.Data) != `{"code":4}` || got.Ref.String() != "crm.send" {
		t.Errorf("got error %+v", got)
	}
	if err := next(t, r, ask("drop", `{}`)).Answer.Err(); fault.KindOf(err) != fault.Denied || fault.Message(err) != "not allowed" ||
		fault.Hint(err) != "ask" {
		t.Errorf("got denial %v", err)
	}
}

func TestResumeRejectsRunOfLiveProcess(t *testing.T) {
	dir := t.TempDir()
	first, second := start(t, dir), start(t, dir)
	r := first.NewRecord("exec_1", nothing, false)
	write(t, r, ask("send", `{}`), `1`)
	for _, d := range []daemon{first, second} {
		if _, _, err := d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("resumed: %v", err)
		}
		if left, err := d.ListUnfinished(t.Context()); len(left) != 0 || err != nil {
			t.Errorf("listed: %+v, %v", left, err)
		}
	}
	first.Process.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for i := range 16 {
		d := second
		if i%2 == 0 {
			d = start(t, dir)
		}
		wg.Go(func() {
			if _, _, err := d.OpenRecord(context.Background(), "exec_1", func([]byte) bool { return false }); err == nil {
				mu.Lock()
				defer mu.Unlock()
				taken++
			} else if fault.KindOf(err) != fault.Unavailable {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if taken != 1 {
		t.Errorf("%d processes resumed it", taken)
	}
}

func TestRecordIsEncryptedAndBound(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", func() ([]byte, error) { return []byte("the-request-text"), nil }, false)
	read(t, r, ask("read", `{"name":"argument-text"}`), `"answer-text"`)
	write(t, r, ask("send", `{}`), `1`)
	first.Process.Close()
	files, err := filepath.Glob(first.path + "*")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"the-request-text", "argument-text", "answer-text"} {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("%s has %s", filepath.Base(name), text)
			}
		}
	}
	other, _ := tenant.Parse("other")
	for name, d := range map[string]daemon{
		"another key":    startWith(t, dir, bytes.Repeat([]byte{8}, 32), tenant.Local, time.Minute),
		"another tenant": startWith(t, dir, sealing, other, time.Minute),
	} {
		if _, _, err := d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); fault.KindOf(err) != fault.Unavailable ||
			!strings.Contains(fault.Message(err), "cannot be decrypted") {
			t.Errorf("with %s: %v", name, err)
		}
		d.Process.Close()
	}
	d := start(t, dir)
	if _, err := d.ListUnfinished(t.Context()); err != nil { // the record is in the database now
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), d.path, []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, sql := range []string{
		"UPDATE run_events SET number = number + 7",
		"UPDATE run_events SET number = number - 7, answer = arguments WHERE answer IS NOT NULL",
	} {
		if err := db.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.ExecContext(t.Context(), sql); return err }); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("after %s: %v", sql, err)
		}
	}
}

func TestEndDeletesRun(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	for id, end := range map[string]journal.End{"exec_1": {},
		"exec_2": {State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "timed_out"}} {
		r := d.NewRecord(id, nothing, false)
		write(t, r, ask("send", `{}`), `1`)
		if err := r.End(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if err := r.Begin(t.Context(), tool.Call{Number: 99}); err == nil {
			t.Error("a call began that was not requested")
		}
	}
	if left, err := d.ListUnfinished(t.Context()); err != nil || len(left) != 1 || left[0].Execution != "exec_2" ||
		left[0].Reason != "timed_out" {
		t.Errorf("unfinished: %+v, %v", left, err)
	}
	if _, _, err := d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	r := resume(t, d, "exec_2") // by the same process
	gives(t, r, ask("send", `{}`), `1`)
	write(t, r, ask("send", `{}`), `2`) // another occurrence
	if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"}); err != nil {
		t.Fatal(err)
	}
	r = resume(t, d, "exec_2")
	gives(t, r, ask("send", `{}`), `1`)
	gives(t, r, ask("send", `{}`), `2`)
	if entries, err := d.List(t.Context(), 10); err != nil || len(entries) != 3 {
		t.Errorf("the journal has %+v, %v", entries, err)
	}
}

// A call that ends after its killed execution is recorded in the journal, and stays unknown in the
// record of the execution.
func TestCallEndingAfterRunStaysUnknown(t *testing.T) {
	d := start(t, t.TempDir())
	r := d.NewRecord("exec_1", nothing, false)
	n := begin(t, r, ask("send", `{}`))
	if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"}); err != nil {
		t.Fatal(err)
	}
	v := value(`1`)
	if err := r.Done(t.Context(), n, journal.Answered, &v); err != nil {
		t.Fatal(err)
	}
	if entries, err := d.List(t.Context(), 10); err != nil || entries[0].Outcome != journal.Answered {
		t.Errorf("%+v, %v", entries, err)
	}
	if c := next(t, resume(t, d, "exec_1"), ask("send", `{}`)); !c.Begun || c.Answer != nil {
		t.Errorf("it is %+v", c)
	}
}

func TestOversizedRunCannotResume(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	big := `"` + strings.Repeat("x", 6<<20) + `"`
	r := d.NewRecord("exec_1", nothing, false)
	for i := range 4 {
		read(t, r, ask("read", fmt.Sprintf(`{"n":%d}`, i)), big)
	}
	write(t, r, ask("send", `{}`), `1`)
	if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "crashed"}); err != nil {
		t.Fatal(err)
	}
	if left, err := d.ListUnfinished(t.Context()); err != nil || len(left) != 1 || left[0].Reason != journal.TooLarge {
		t.Errorf("unfinished: %+v, %v", left, err)
	}
	if _, _, err := d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
	if info, err := os.Stat(d.path); err != nil || info.Size() > 1<<20 {
		t.Errorf("the database has %d bytes, %v", info.Size(), err)
	}
	r = d.NewRecord("exec_2", nothing, false)
	for i := range 4 { // each is written to disk with the next
		read(t, r, ask("read", fmt.Sprintf(`{"n":%d}`, i)), big)
		write(t, r, ask("send", `{}`), `1`)
	}
	if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "crashed"}); err != nil {
		t.Fatal(err)
	}
	resume(t, d, "exec_2")
}

func TestOldRunsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	d, other := start(t, dir), start(t, dir)
	lives := other.NewRecord("exec_lives", nothing, false)
	write(t, lives, ask("send", `{}`), `1`)
	for i := range 210 {
		r := d.NewRecord(fmt.Sprintf("exec_%03d", i), nothing, false)
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"}); err != nil {
			t.Fatal(err)
		}
	}
	left, err := d.ListUnfinished(t.Context())
	if err != nil || len(left) < 190 || len(left) > 201 {
		t.Errorf("%d are left, %v", len(left), err)
	}
	v := value(`2`)
	if err := lives.Done(t.Context(), begin(t, lives, ask("send", `{}`)), journal.Answered, &v); err != nil {
		t.Errorf("the live run was deleted: %v", err)
	}
}

func TestRunsAreIsolatedByTenant(t *testing.T) {
	one, two := start(t, t.TempDir()), start(t, t.TempDir())
	r := one.NewRecord("exec_1", nothing, false)
	write(t, r, ask("send", `{}`), `1`)
	r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"})
	if _, _, err := two.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

func TestLaterEndsBeforeTheRecordIsUsed(t *testing.T) {
	for name, use := range map[string]func(*journal.Record) error{
		"Begin": func(r *journal.Record) error { begin(t, r, ask("send", `{}`)); return nil },
		"Flush": func(r *journal.Record) error { return r.Flush(t.Context()) },
		"Later": func(r *journal.Record) error { r.Later(func() {}); return nil },
		"End":   func(r *journal.Record) error { return r.End(t.Context(), journal.End{}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, t.TempDir()).NewRecord("exec_1", nothing, false)
			ready, ended := make(chan struct{}), false
			r.Later(func() { <-ready; ended = true })
			go close(ready)
			if err := use(r); err != nil || !ended {
				t.Errorf("%v, with the function of Later ended: %v", err, ended)
			}
		})
	}
}

func TestCallsWithUnknownOutcomesAreCounted(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", func() ([]byte, error) { return nil, nil }, false)
	write(t, r, ask("send", `{"to":"bob"}`), `"sent"`)
	number := begin(t, r, ask("send", `{"to":"ann"}`))
	failed := journal.Answer{Failure: &tool.Failure{Ref: tool.Ref{Server: "crm", Tool: "send"}, Message: "did not respond", Unknown: true}}
	if err := r.Done(t.Context(), number, journal.Unknown, &failed); err != nil {
		t.Fatal(err)
	}
	first.Process.Close()

	second := start(t, dir)
	left, err := second.ListUnfinished(t.Context())
	if err != nil || len(left) != 1 || left[0].Answered != 1 || left[0].Unknown != 1 {
		t.Errorf("%+v, %v", left, err)
	}
	if r, _, err = second.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); err != nil {
		t.Fatal(err)
	}
	gives(t, r, ask("send", `{"to":"bob"}`), `"sent"`)
	if c := next(t, r, ask("send", `{"to":"ann"}`)); c.Answer == nil || c.Answer.Failure == nil || !c.Answer.Failure.Unknown {
		t.Errorf("the code gets %+v", c)
	}
}
