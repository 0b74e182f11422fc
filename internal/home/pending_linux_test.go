package home_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// laterWork gives a tenant an execution that waits until a time, with a signal, and a schedule.
func laterWork(t *testing.T, h *home.Home, until time.Time) {
	t.Helper()
	ctx := t.Context()
	if err := h.Runs.Add(ctx, journal.Run{Execution: "exec_later", State: journal.Queued, OnRestart: journal.ResumeOnRestart,
		Request: []byte("later")}); err != nil {
		t.Fatal(err)
	}
	if e := must(h.Runs.Claim(ctx))(t); e == nil {
		t.Fatal("the execution is not due")
	}
	if err := h.Runs.Signal(ctx, "exec_later", "go", []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	if err := h.Journal.End(ctx, "exec_later", journal.End{State: journal.Waiting, Wait: journal.Wait{Until: until}}); err != nil {
		t.Fatal(err)
	}
	must(schedule.Open(h).Create(ctx, time.Now(), nil, schedule.Spec{Name: "nightly", Cron: "0 2 * * *", TimeZone: "UTC",
		Skill: "greet"}))(t)
}

// expectWoken checks that a daemon finds the tenant without being told, and then knows when its
// work is due.
func expectWoken(t *testing.T, ts *home.Homes, id tenant.ID, until time.Time) {
	t.Helper()
	now := time.Now()
	if ids := must(ts.Marks(home.Executions).Due(now))(t); !slices.Contains(ids, id) {
		t.Errorf("the execution is not noticed: %v", ids)
	}
	if ids := must(ts.Marks("schedule").Due(now))(t); !slices.Contains(ids, id) {
		t.Errorf("the schedule is not noticed: %v", ids)
	}
	h := must(ts.Acquire(t.Context(), id))(t)
	defer h.Release(t.Context())
	if e := must(h.Runs.Claim(t.Context()))(t); e != nil {
		t.Errorf("it runs before its time: %+v", e)
	}
	e := must(h.Runs.Find(t.Context(), "exec_later"))(t)
	if string(e.Request) != "later" || e.State != journal.Waiting || !e.Due.Equal(until) {
		t.Errorf("the execution is %+v", e)
	}
	none := func(schedule.Spec) ([]byte, error) { return nil, nil }
	if p := must(schedule.Open(h).HandleDue(t.Context(), now, nil, none, nil))(t); p.Next.IsZero() {
		t.Errorf("the schedule has no next run: %+v", p)
	}
	if err := schedule.Open(h).Touch(t.Context(), now, nil); err != nil {
		t.Fatal(err)
	}
	if ids := must(ts.Marks("schedule").Due(now))(t); slices.Contains(ids, id) {
		t.Error("the schedule is due already")
	}
	for at, want := range map[time.Time]bool{until.Add(-time.Second): false, until.Add(time.Second): true} {
		if ids := must(ts.Marks(home.Executions).Due(at))(t); slices.Contains(ids, id) != want {
			t.Errorf("%s from its time, due are %v", at.Sub(until), ids)
		}
	}
}

// Work that was postponed in the future is due at once: the clock was put back since.
func TestWorkIsDueAfterClockIsPutBack(t *testing.T) {
	t.Parallel()
	ts, _ := machine(t, workspace.Quota{})
	a := id(t, "a")
	now := time.Now()
	if err := ts.Marks(home.Executions).Set(a, now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[time.Duration]int{0: 0, time.Hour: 1} {
		if ids := must(ts.Marks(home.Executions).Due(now.Add(-before)))(t); len(ids) != want {
			t.Errorf("%s before: %v", before, ids)
		}
	}
}

func TestImportedTenantIsWokenForItsWork(t *testing.T) {
	t.Parallel()
	from, _ := machine(t, workspace.Quota{})
	until := time.Now().Add(100 * time.Hour).Truncate(time.Millisecond)
	h := acquire(t, from, "ada")
	laterWork(t, h, until)
	h.Release(t.Context())
	acquire(t, from, "idle").Release(t.Context())
	to, _ := machine(t, workspace.Quota{})
	for _, one := range []string{"ada", "idle"} {
		archive := exported(t, from, id(t, one))
		must(to.Import(t.Context(), bytes.NewReader(archive), id(t, one+"2")))(t)
	}
	if ids := must(to.Marks(home.Executions).Due(time.Now()))(t); len(ids) != 1 {
		t.Errorf("due are %v", ids)
	}
	expectWoken(t, to, id(t, "ada2"), until)
}

func TestRestoredTenantIsWokenForItsWork(t *testing.T) {
	t.Parallel()
	ts, root := machine(t, workspace.Quota{})
	until := time.Now().Add(100 * time.Hour).Truncate(time.Millisecond)
	h := acquire(t, ts, "ada")
	laterWork(t, h, until)
	archive := backup(t, ts, h.ID())
	ada := h.ID()
	h.Release(t.Context())
	t.Run("all", func(t *testing.T) {
		key := bytes.Repeat([]byte{byte(len(root))}, 32) // as of machine
		copy(key, root)
		process := journal.NewProcess(t.TempDir(), func() ([]byte, error) { return key, nil })
		t.Cleanup(func() { process.Close() })
		expectWoken(t, open(t, home.Config{Root: restore(t, archive, root), UIDs: -1, Process: process}), ada, until)
	})
	for _, replace := range []bool{false, true} {
		if replace {
			if err := ts.Suspend(ada, ""); err != nil {
				t.Fatal(err)
			}
		} else if err := ts.Delete(t.Context(), ada); err != nil {
			t.Fatal(err)
		}
		if ids := must(ts.Marks(home.Executions).Due(until.Add(time.Hour)))(t); !replace && len(ids) != 0 {
			t.Errorf("a deleted tenant is due: %v", ids)
		}
		if _, err := ts.Restore(t.Context(), ada, replace, entries(archive)); err != nil {
			t.Fatal(err)
		}
		if replace {
			if err := ts.Activate(ada); err != nil {
				t.Fatal(err)
			}
		}
		expectWoken(t, ts, ada, until)
	}
}

// A file of due work that cannot be read is an error: else the work of its tenant would not run, and
// nobody would know. The work of the others runs.
func TestUnreadableDueWorkIsReported(t *testing.T) {
	t.Parallel()
	ts, root := machine(t, workspace.Quota{})
	a, now := id(t, "a"), time.Now()
	if err := ts.Marks(home.Executions).Set(a, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, "due", "*", a.Dir()))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if err := os.Mkdir(filepath.Join(filepath.Dir(found[0]), "unreadable"), 0o700); err != nil { // root reads any file
		t.Fatal(err)
	}
	ids, err := ts.Marks(home.Executions).Due(now.Add(time.Minute))
	if len(ids) != 1 || err == nil || !strings.Contains(err.Error(), "unreadable") {
		t.Errorf("%v, %v", ids, err)
	}
}
