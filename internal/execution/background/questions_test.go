package background_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// asking is a daemon, and an execution of tenant a that asks a question.
type asking struct {
	daemon
	backend *fake.Backend
	tenant  tenant.ID
	id      string
}

// newAsking starts a daemon and waits until its execution asks, without a process after the grace.
func newAsking(t *testing.T, grace time.Duration) asking {
	t.Helper()
	b := fake.New(fake.Config{})
	d := newDaemonOf(t, filepath.Join(t.TempDir(), "data"), execution.Config{Backend: b, AnswerGrace: grace}, background.Config{})
	d.homes.Watch(d.runner.EndTenant)
	owner, err := tenant.Parse("a")
	if err != nil {
		t.Fatal(err)
	}
	x := asking{d, b, owner, ""}
	x.use(t, func(h *home.Home) {
		code := "call ask {\"question\":\"Go on?\"}\n# ask"
		if x.id, err = d.Dispatch(t.Context(), h, execution.StoredRequest{Request: execution.Request{Code: code}},
			journal.ResumeOnRestart); err != nil {
			t.Fatal(err)
		}
	})
	d.Start()
	eventually(t, "it asks", func() bool {
		e := x.run(t)
		return len(live.QuestionsOf(e)) == 1 && (e.State == journal.Waiting || grace > time.Minute)
	})
	return x
}

// use calls f with the home of the tenant, also if that is suspended.
func (x asking) use(t *testing.T, f func(*home.Home)) {
	t.Helper()
	h, err := x.homes.AcquireSuspended(t.Context(), x.tenant)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release(context.Background())
	f(h)
}

func (x asking) run(t *testing.T) (e journal.Run) {
	t.Helper()
	x.use(t, func(h *home.Home) {
		var err error
		if e, err = h.Runs.Find(t.Context(), x.id); err != nil {
			t.Fatal(err)
		}
	})
	return e
}

// awaitNoProcess waits until no sandbox is open.
func (x asking) awaitNoProcess(t *testing.T) {
	t.Helper()
	eventually(t, "no sandbox is open", func() bool { open, _ := x.backend.Count(); return open == 0 })
}

var yes = question.Answer{"q1": {Action: tool.Accept, Content: json.RawMessage(`{"answer":"yes"}`)}}

// A question of a suspended tenant waits, whether its execution has a process or none, and is answered when the tenant is
// active again. Nothing runs meanwhile, not even with an answer that the operator gives.
func TestQuestionOfSuspendedTenantWaits(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"with a process": time.Hour, "without a process": 20 * time.Millisecond} {
		for _, early := range []bool{true, false} {
			x := newAsking(t, grace)
			if err := x.homes.Suspend(x.tenant, "unpaid"); err != nil {
				t.Fatal(err)
			}
			x.awaitNoProcess(t)
			_, before := x.backend.Count()
			if _, err := x.homes.Acquire(t.Context(), x.tenant); fault.KindOf(err) != fault.Denied {
				t.Errorf("%s: the tenant is opened: %v", name, err)
			}
			answer := func(h *home.Home) {
				if err := live.Answer(t.Context(), h.Runs, x.id, yes); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if early {
				x.use(t, answer)
				x.Wake()
				eventually(t, "the daemon has seen that it may not run it", func() bool {
					due, err := x.homes.Marks(home.Executions).Due(time.Now())
					return err == nil && len(due) == 0
				})
			}
			if e := x.run(t); e.State == journal.Ended || e.Alive || len(live.QuestionsOf(e)) != 1 {
				t.Errorf("%s: it is %+v", name, e)
			}
			if _, now := x.backend.Count(); now != before {
				t.Errorf("%s: code of a suspended tenant ran", name)
			}
			if err := x.homes.Activate(x.tenant); err != nil {
				t.Fatal(err)
			}
			if early {
				if err := x.homes.Marks(home.Executions).Set(x.tenant, time.Now()); err != nil { // or a minute later
					t.Fatal(err)
				}
			} else {
				x.use(t, answer)
			}
			eventually(t, "it has ended", func() bool { return x.run(t).State == journal.Ended })
			if e := x.run(t); e.Outcome != journal.Succeeded {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// A tenant is deleted while a question waits. Neither an answer nor a later tenant of this name continues the execution.
func TestQuestionOfDeletedTenant(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"with a process": time.Hour, "without a process": 20 * time.Millisecond} {
		x := newAsking(t, grace)
		if err := x.homes.Delete(t.Context(), x.tenant); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x.awaitNoProcess(t)
		_, before := x.backend.Count()
		if due, err := x.homes.Marks(home.Executions).Due(time.Now().Add(48 * time.Hour)); err != nil || len(due) != 0 {
			t.Errorf("%s: due are %v, %v", name, due, err)
		}
		x.use(t, func(h *home.Home) { // another tenant
			if err := live.Answer(t.Context(), h.Runs, x.id, yes); fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s: an answer: %v", name, err)
			}
			if all, err := h.Runs.List(t.Context(), 10); err != nil || len(all) != 0 {
				t.Errorf("%s: %+v %v", name, all, err)
			}
			if e, err := h.Runs.Claim(t.Context()); err != nil || e != nil {
				t.Errorf("%s: %+v was claimed, %v", name, e, err)
			}
		})
		if _, now := x.backend.Count(); now != before {
			t.Errorf("%s: it ran again", name)
		}
	}
}
