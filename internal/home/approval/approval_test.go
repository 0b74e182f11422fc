package approval_test

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
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// open opens the store of a tenant, as another process does.
func open(t *testing.T, path string, cfg approval.Config) *approval.Store {
	t.Helper()
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "approvals", SQL: approval.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	cfg.DB, cfg.Tenant, cfg.Key = db, tenant.Local, bytes.Repeat([]byte{7}, 32)
	s, err := approval.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "tenant.db") }

func question(n int) approval.Question {
	return approval.Question{
		Binding: approval.Binding{
			Kind: approval.Call, Execution: "exec_1", Occurrence: 1, Ref: tool.Ref{Server: "fs", Tool: "delete"},
			Schema: "s", Arguments: fmt.Sprint("a", n),
		},
		Session: "report", Rule: "default", Reason: "the server marks this tool as destructive",
		Shown: json.RawMessage(`{"path":"/secret/ada@example.com"}`),
	}
}

func ask(t *testing.T, s *approval.Store, q approval.Question) approval.Request {
	t.Helper()
	r, err := s.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused checks the kind and the text of err.
func refused(t *testing.T, err error, kind fault.Kind, want string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(fault.Message(err), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestWaitReturnsAnswerOfAnotherProcess(t *testing.T) {
	path := file(t)
	s, other := open(t, path, approval.Config{}), open(t, path, approval.Config{})
	r := ask(t, s, question(1))
	waited := make(chan approval.Request, 1)
	go func() {
		got, err := s.Wait(t.Context(), r.ID)
		if err != nil {
			t.Error(err)
		}
		waited <- got
	}()
	list, err := other.List(t.Context(), false)
	if err != nil || len(list) != 1 || list[0].ID != r.ID || string(list[0].Shown) != string(question(1).Shown) ||
		list[0].Session != "report" {
		t.Fatalf("%+v %v", list, err)
	}
	if _, err := other.Answer(t.Context(), " "+strings.ToUpper(r.ID),
		approval.Answer{By: approval.CommandLine, Note: "not this one"}); err != nil {
		t.Fatal(err)
	}
	if got := <-waited; got.State != approval.Denied || got.By != approval.CommandLine || got.Note != "not this one" ||
		got.Answered.IsZero() {
		t.Errorf("%+v", got)
	}
	if list, err = other.List(t.Context(), false); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
}

func TestSecondAnswerIsRefused(t *testing.T) {
	s := open(t, file(t), approval.Config{})
	r := ask(t, s, question(1))
	if _, err := s.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: approval.Client}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Answer(t.Context(), r.ID, approval.Answer{By: approval.CommandLine})
	refused(t, err, fault.Denied, "answered already: approved at ")
	refused(t, err, fault.Denied, "by the client")
	if err := s.Withdraw(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Find(t.Context(), r.ID); err != nil || got.State != approval.Approved || got.By != approval.Client {
		t.Errorf("%+v %v", got, err)
	}
	_, err = s.Answer(t.Context(), "nothing", approval.Answer{Approve: true})
	refused(t, err, fault.NotFound, `there is no approval "nothing"`)
}

func TestConcurrentAnswersAcceptOne(t *testing.T) {
	path := file(t)
	stores := []*approval.Store{open(t, path, approval.Config{}), open(t, path, approval.Config{})}
	for n := range 5 {
		r := ask(t, stores[0], question(n))
		var taken, approved atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := stores[i%2].Answer(t.Context(), r.ID, approval.Answer{Approve: i%4 < 2, By: approval.Client})
				if err != nil {
					refused(t, err, fault.Denied, "answered already")
					return
				}
				taken.Add(1)
				if i%4 < 2 {
					approved.Add(1)
				}
			})
		}
		wg.Wait()
		got, err := stores[1].Find(t.Context(), r.ID)
		if err != nil || taken.Load() != 1 || (got.State == approval.Approved) != (approved.Load() == 1) {
			t.Errorf("%d answers were accepted, %d approvals; the state is %s, %v", taken.Load(), approved.Load(), got.State, err)
		}
	}
}

func TestUseRequiresBindingAndIsOnce(t *testing.T) {
	path := file(t)
	s := open(t, path, approval.Config{})
	r := ask(t, s, question(1))
	refused(t, s.Use(t.Context(), r.ID, r.Binding), fault.Denied, "is open")
	if _, err := s.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: approval.CommandLine}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*approval.Binding){
		"execution": func(b *approval.Binding) { b.Execution = "exec_2" }, "occurrence": func(b *approval.Binding) { b.Occurrence = 2 },
		"tool": func(b *approval.Binding) { b.Tool = "erase" }, "server": func(b *approval.Binding) { b.Server = "other" },
		"schema": func(b *approval.Binding) { b.Schema = "x" }, "arguments": func(b *approval.Binding) { b.Arguments = "x" },
		"kind": func(b *approval.Binding) { b.Kind = approval.Plan },
	} {
		t.Run(name, func(t *testing.T) {
			q := question(1)
			change(&q.Binding)
			refused(t, s.Use(t.Context(), r.ID, q.Binding), fault.Denied, "was given for another call")
			if another := ask(t, s, q); another.ID == r.ID || another.State != approval.Open {
				t.Errorf("%+v", another)
			}
		})
	}
	again := ask(t, open(t, path, approval.Config{}), question(1)) // as after a restart
	if again.ID != r.ID || again.State != approval.Approved {
		t.Errorf("asked again: %+v", again)
	}
	var used atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			err := s.Use(t.Context(), r.ID, r.Binding)
			if err == nil {
				used.Add(1)
			} else if !errors.Is(err, approval.ErrUsed) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if used.Load() != 1 {
		t.Errorf("used %d times", used.Load())
	}
	if next := ask(t, s, question(1)); next.ID == r.ID || next.State != approval.Open {
		t.Errorf("after it was used: %+v", next)
	}
}

func TestDenialLastsForExecution(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	path := file(t)
	cfg := approval.Config{Timeout: time.Hour, Now: func() time.Time { return time.UnixMilli(now.Load()) }}
	s := open(t, path, cfg)
	plan := question(2)
	plan.Kind = approval.Plan
	for _, q := range []approval.Question{question(1), plan} {
		r := ask(t, s, q)
		if _, err := s.Answer(t.Context(), r.ID, approval.Answer{By: approval.CommandLine, Note: "no"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			again := ask(t, open(t, path, cfg), q) // as after a restart
			if again.ID != r.ID || again.State != approval.Denied || again.Note != "no" {
				t.Errorf("asked again: %+v", again)
			}
			if err := s.ConsumeDenial(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
			refused(t, s.Use(t.Context(), r.ID, q.Binding), fault.Denied, "is denied")
			now.Add(2 * time.Hour.Milliseconds())
		}
		q.Occurrence++
		if next := ask(t, s, q); next.ID == r.ID || next.State != approval.Open {
			t.Errorf("the denial of one call denied another: %+v", next)
		}
	}
}

// After the clock was put back, an approval is not valid for longer than Config.Timeout from now.
func TestExpiryAfterClockIsPutBack(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	s := open(t, file(t), approval.Config{Timeout: time.Hour, Now: func() time.Time { return time.UnixMilli(now.Load()) }})
	r := ask(t, s, question(1))
	if left := r.Expires.Sub(time.UnixMilli(now.Load())); left != time.Hour {
		t.Errorf("it expires in %s", left)
	}
	now.Add(-10 * time.Hour.Milliseconds())
	again, err := s.Find(t.Context(), r.ID)
	if left := again.Expires.Sub(time.UnixMilli(now.Load())); err != nil || left != time.Hour || again.State != approval.Open {
		t.Errorf("it expires in %s: %+v, %v", left, again, err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	now.Add(61 * time.Minute.Milliseconds())
	if again, err := s.Find(t.Context(), r.ID); err != nil || again.State != approval.Expired {
		t.Errorf("after its lifetime: %+v, %v", again, err)
	}
}

func TestRequestExpires(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	var recorded []string
	cfg := approval.Config{Timeout: time.Hour, Now: func() time.Time { return time.UnixMilli(now.Load()) },
		Record: func(_ context.Context, r approval.Request) error {
			recorded = append(recorded, string(r.State))
			return nil
		}}
	s := open(t, file(t), cfg)
	r, approved := ask(t, s, question(1)), ask(t, s, question(2))
	if _, err := s.Answer(t.Context(), approved.ID, approval.Answer{Approve: true, By: approval.Client}); err != nil {
		t.Fatal(err)
	}
	now.Add(time.Hour.Milliseconds())
	_, err := s.Answer(t.Context(), r.ID, approval.Answer{Approve: true})
	refused(t, err, fault.Denied, "expired at")
	for range 2 {
		if got, err := s.Wait(t.Context(), r.ID); err != nil || got.State != approval.Expired {
			t.Errorf("%+v %v", got, err)
		}
	}
	refused(t, s.Use(t.Context(), approved.ID, approved.Binding), fault.Denied, "is expired")
	if again := ask(t, s, question(2)); again.ID == approved.ID {
		t.Errorf("%+v", again)
	}
	if want := "[open open approved expired open]"; fmt.Sprint(recorded) != want {
		t.Errorf("recorded %v, want %s", recorded, want)
	}
	now.Add((8 * 24 * time.Hour).Milliseconds())
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context(), true); err != nil || len(all) != 0 {
		t.Errorf("%d are kept, %v", len(all), err)
	}
}

func TestRecordErrorPreventsChange(t *testing.T) {
	full := fault.New(fault.Exhausted, "the disk is full")
	var fails bool
	s := open(t, file(t), approval.Config{Record: func(context.Context, approval.Request) error {
		if fails {
			return full
		}
		return nil
	}})
	r := ask(t, s, question(1))
	fails = true
	if _, err := s.Answer(t.Context(), r.ID, approval.Answer{Approve: true}); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := s.Create(t.Context(), question(2)); !errors.Is(err, full) {
		t.Error(err)
	}
	if all, err := s.List(t.Context(), true); err != nil || len(all) != 1 || all[0].State != approval.Open {
		t.Errorf("%+v %v", all, err)
	}
}

func TestMaxOpen(t *testing.T) {
	s := open(t, file(t), approval.Config{MaxOpen: 2})
	first := ask(t, s, question(1))
	ask(t, s, question(2))
	_, err := s.Create(t.Context(), question(3))
	refused(t, err, fault.Exhausted, "2 approvals are open, which is the limit")
	if again := ask(t, s, question(1)); again.ID != first.ID {
		t.Errorf("%+v", again)
	}
	if err := s.Withdraw(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.Answer(t.Context(), first.ID, approval.Answer{Approve: true})
	refused(t, err, fault.Denied, "was withdrawn: nothing waits for the answer any more")
	ask(t, s, question(3))
}

func TestFinishedRequestsAreBounded(t *testing.T) {
	s := open(t, file(t), approval.Config{})
	q := question(0)
	q.Shown = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	_, err := s.Create(t.Context(), q)
	refused(t, err, fault.Exhausted, "at most 2 MiB")
	waits := ask(t, s, question(1))
	q.Shown = q.Shown[:2<<20-1]
	for n := range 20 {
		q.Arguments = fmt.Sprint("b", n)
		if err := s.Withdraw(t.Context(), ask(t, s, q).ID); err != nil {
			t.Fatal(err)
		}
	}
	last := ask(t, s, question(2))
	list, err := s.List(t.Context(), true)
	if err != nil || len(list) != 17 { // 15 of 2 MiB and a little
		t.Errorf("%d are kept, %v", len(list), err)
	}
	for _, r := range []approval.Request{waits, last} {
		if _, err := s.Find(t.Context(), r.ID); err != nil {
			t.Errorf("an open request was deleted: %v", err)
		}
	}
}

func TestShownIsEncryptedAndBound(t *testing.T) {
	path := file(t)
	s := open(t, path, approval.Config{})
	r := ask(t, s, question(1))
	if _, err := s.Answer(t.Context(), r.ID, approval.Answer{Note: "grace@example.com said no"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal"} {
		b, err := os.ReadFile(name)
		if err != nil || bytes.Contains(b, []byte("ada@example.com")) || bytes.Contains(b, []byte("grace@")) {
			t.Errorf("%s contains the plaintext, %v", filepath.Base(name), err)
		}
	}
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "approvals", SQL: approval.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	acme, err := tenant.Parse("acme")
	if err != nil {
		t.Fatal(err)
	}
	other, err := approval.New(approval.Config{DB: db, Tenant: acme, Key: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Find(t.Context(), r.ID)
	refused(t, err, fault.Internal, "damaged")
	// the arguments of one request cannot be moved to another
	second := ask(t, s, question(2))
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE approvals SET shown = (SELECT shown FROM approvals WHERE id = ?) WHERE id = ?", r.ID,
			second.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Answer(t.Context(), second.ID, approval.Answer{Approve: true})
	refused(t, err, fault.Internal, "damaged")
	// a damaged request does not prevent listing the others
	third := ask(t, s, question(3))
	list, err := s.List(t.Context(), false)
	if err != nil || len(list) != 2 {
		t.Fatalf("listed %v, %v", list, err)
	}
	for _, r := range list {
		if r.Damaged != (r.ID == second.ID) || (len(r.Shown) > 0) != (r.ID == third.ID) {
			t.Errorf("%s: damaged %v, shown %s", r.ID, r.Damaged, r.Shown)
		}
	}
}

func TestAnswerInAnotherWayIsRefused(t *testing.T) {
	via := approval.ViaBoth
	s := open(t, file(t), approval.Config{Via: func() approval.Via { return via }})
	r := ask(t, s, question(1))
	form := approval.ParseReply(tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"approve":true}`)})
	terminal := approval.ParseReply(tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"approve":true}`), By: approval.CommandLine})
	via = approval.ViaClient
	for _, by := range []string{approval.CommandLine, approval.WebPage, approval.Program} {
		_, err := s.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: by})
		refused(t, err, fault.Denied, "approvals.via is client")
	}
	if _, err := s.Answer(t.Context(), r.ID, terminal); err != nil { // the terminal of exec is its client
		t.Error(err)
	}
	via, r = approval.ViaOperator, ask(t, s, question(2))
	_, err := s.Answer(t.Context(), r.ID, form)
	refused(t, err, fault.Denied, "approvals.via is operator")
	if _, err := s.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: approval.WebPage}); err != nil {
		t.Error(err)
	}
}

// A request that expires while its execution has no process is reported to it once; a later run asks again.
func TestExpiryWithoutProcessIsReportedOnce(t *testing.T) {
	now, closed := time.Now(), 0
	s := open(t, file(t), approval.Config{Timeout: time.Minute, Now: func() time.Time { return now }})
	s.Closed = func(context.Context, *store.Tx, approval.Request) error { closed++; return nil }
	r := ask(t, s, question(1))
	now = now.Add(2 * time.Minute)
	for range 2 {
		if err := approval.ExpireWaiting(t.Context(), s, "exec_1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, s, question(1)); got.ID != r.ID || got.State != approval.Expired || closed != 1 {
		t.Errorf("%+v, closed %d times", got, closed)
	}
	again := ask(t, s, question(1))
	if again.ID == r.ID || again.State != approval.Open {
		t.Errorf("%+v", again)
	}
	if err := approval.WithdrawAll(t.Context(), s, "exec_1"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Find(t.Context(), again.ID); err != nil || got.State != approval.Withdrawn {
		t.Errorf("%+v %v", got, err)
	}
}
