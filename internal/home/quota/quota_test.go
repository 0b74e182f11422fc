package quota_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// watch is a clock that tests set.
type watch struct {
	mu sync.Mutex
	at time.Time
}

func (w *watch) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *watch) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

func open(t *testing.T, path string, w *watch, limits quota.Limits) *quota.Counter {
	t.Helper()
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "quotas", SQL: quota.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	c := quota.New(quota.Config{DB: db, Limits: limits, Now: w.now})
	t.Cleanup(func() { c.Close(); db.Close() })
	return c
}

func newWatch() *watch { return &watch{at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)} }

func TestQuotaIsAvailableAgainAfterItsPeriod(t *testing.T) {
	w := newWatch()
	c := open(t, filepath.Join(t.TempDir(), "t.db"), w, quota.Limits{quota.Executions: 3})
	for i := range 3 {
		if err := c.Take(t.Context(), quota.Executions); err != nil {
			t.Fatal(i, err)
		}
		w.pass(10 * time.Second)
	}
	err := c.Take(t.Context(), quota.Executions)
	var over *quota.Exceeded
	if !errors.As(err, &over) || fault.KindOf(err) != fault.Exhausted || over.Name != quota.Executions || over.Used != 3 || over.Limit != 3 ||
		over.Retry <= 30*time.Second || over.Retry > 32*time.Second {
		t.Fatalf("%+v", err)
	}
	if got := fault.Message(err) + "; " + fault.Hint(err); !strings.HasPrefix(got, "the quota executions_per_minute is used up: 3 of 3; try again in 31 seconds") {
		t.Error(got)
	}
	w.pass(over.Retry - time.Millisecond)
	if c.Take(t.Context(), quota.Executions) == nil {
		t.Error("it is available before the time in the error")
	}
	w.pass(time.Millisecond)
	if err := c.Take(t.Context(), quota.Executions); err != nil {
		t.Error("it is not available at the time in the error:", err)
	}
	if c.Take(t.Context(), quota.Executions) == nil {
		t.Error("more than one is available")
	}
	if err := c.Take(t.Context(), quota.Calls); err != nil {
		t.Error("a quota that is not configured:", err)
	}
}

func TestCPUIsCountedInSeconds(t *testing.T) {
	w := newWatch()
	c := open(t, filepath.Join(t.TempDir(), "t.db"), w, quota.Limits{quota.CPU: 2})
	c.AddCPU(1900 * time.Millisecond)
	c.AddCPU(200 * time.Millisecond)
	c.AddCPU(-time.Second)
	all, err := c.Status(t.Context())
	if err != nil || len(all) != 1 || all[0].Used != 3 || all[0].Left() != 0 || all[0].Period != 24*time.Hour {
		t.Errorf("%+v %v", all, err)
	}
	if c.Check(t.Context(), quota.CPU) == nil {
		t.Error("more CPU time than the quota is allowed")
	}
}

func TestCountsSpanProcessesAndRestarts(t *testing.T) {
	w, path := newWatch(), filepath.Join(t.TempDir(), "t.db")
	one, other := open(t, path, w, quota.Limits{quota.Calls: 100}), open(t, path, w, quota.Limits{quota.Calls: 100})
	var all sync.WaitGroup
	for _, c := range []*quota.Counter{one, other} {
		for range 4 {
			all.Go(func() {
				for range 10 {
					if err := c.Take(t.Context(), quota.Calls); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	one.Close()
	other.Close()
	w.pass(time.Hour)
	restarted := open(t, path, w, quota.Limits{quota.Calls: 100})
	s, err := restarted.Status(t.Context())
	if err != nil || s[0].Used != 80 {
		t.Fatalf("%+v %v", s, err)
	}
	for range 20 {
		if err := restarted.Take(t.Context(), quota.Calls); err != nil {
			t.Fatal(err)
		}
	}
	if restarted.Take(t.Context(), quota.Calls) == nil {
		t.Error("101 of 100")
	}
	lowered := open(t, path, w, quota.Limits{quota.Calls: 10})
	restarted.Close()
	if s, err := lowered.Status(t.Context()); err != nil || s[0].Used != 100 || s[0].Left() != 0 {
		t.Errorf("a lower limit: %+v %v", s, err)
	}
}
