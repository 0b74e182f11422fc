package quota_test

import (
	"errors"
	"log/slog"
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
	if !errors.As(err, &over) || fault.KindOf(err) != fault.Exhausted || over.Name != quota.Executions || over.Used != 3 ||
		over.Limit != 3 ||
		over.Retry <= 30*time.Second || over.Retry > 32*time.Second {
		t.Fatalf("%+v", err)
	}
	if got := fault.Message(err) + "; " + fault.Hint(err); !strings.HasPrefix(got,
		"the quota executions_per_minute is used up (3 of 3); try again in 31 seconds") {
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

// After the clock was put back, a quota is available again after its period, also in processes that
// start later.
func TestQuotaAfterClockIsPutBack(t *testing.T) {
	w, path := newWatch(), filepath.Join(t.TempDir(), "t.db")
	limits := quota.Limits{quota.Executions: 3, quota.Calls: 5}
	c := open(t, path, w, limits)
	for range 3 {
		if err := errors.Join(c.Take(t.Context(), quota.Executions), c.Take(t.Context(), quota.Calls)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	w.pass(-24 * time.Hour)
	c = open(t, path, w, limits)
	err := c.Take(t.Context(), quota.Executions)
	var over *quota.Exceeded
	if !errors.As(err, &over) || over.Used != 3 || over.Retry > 62*time.Second {
		t.Errorf("%+v", err)
	}
	w.pass(62 * time.Second)
	if err := c.Take(t.Context(), quota.Executions); err != nil {
		t.Error(err)
	}
	all, err := c.Status(t.Context())
	if err != nil || len(all) != 2 || all[0].Used+all[1].Used != 4 {
		t.Errorf("%+v, %v", all, err)
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

// What a model has cost is counted without a quota, and for a day.
func TestModelUseIsCountedWithoutAQuota(t *testing.T) {
	w, path := newWatch(), filepath.Join(t.TempDir(), "t.db")
	c := open(t, path, w, nil)
	for range 3 {
		c.AddModel(quota.ModelUse{Requests: 1, Input: 100, Output: 20, Cost: 0.0001})
	}
	c.Close()
	want := quota.ModelUse{Requests: 3, Input: 300, Output: 60, Cost: 0.0003}
	again := open(t, path, w, quota.Limits{quota.ModelTokens: 1000})
	if got, err := again.ModelUse(t.Context()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	again.AddModel(quota.ModelUse{Requests: 1, Input: 900, Output: 100})
	if err := again.Check(t.Context(), quota.ModelTokens); fault.Quota(err) != "model_tokens_per_day" {
		t.Errorf("%v", err)
	}
	if all, err := again.Status(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the quotas are %+v, %v", all, err)
	}
	w.pass(25 * time.Hour)
	if got, err := again.ModelUse(t.Context()); err != nil || got != (quota.ModelUse{}) {
		t.Errorf("a day later: %+v, %v", got, err)
	}
}

// Counts that could not be written are written later.
func TestFailedWriteLosesNoCounts(t *testing.T) {
	w, path := newWatch(), filepath.Join(t.TempDir(), "t.db")
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "quotas", SQL: quota.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	rename := func(from, to string) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	warned := make(chan struct{}, 1)
	c := quota.New(quota.Config{DB: db, Limits: quota.Limits{quota.Calls: 10}, Now: w.now,
		Log: slog.New(slog.NewTextHandler(signal(warned), nil))})
	rename("quotas", "away")
	c.AddModel(quota.ModelUse{Requests: 1})
	<-warned
	rename("away", "quotas")
	c.AddModel(quota.ModelUse{Requests: 1})
	c.Close()
	if got, err := open(t, path, w, nil).ModelUse(t.Context()); err != nil || got.Requests != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// signal is sent to by each write.
type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}
