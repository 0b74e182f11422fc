package background_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// tally counts the sandboxes of each tenant, whose Run waits until release is closed.
type tally struct {
	sandbox.Backend
	release chan struct{}

	mu      sync.Mutex
	running map[string]int
	most    map[string]int // running at a time, "" of all tenants
	runs    map[string]int // by code
}

func newTally() *tally {
	return &tally{Backend: fake.New(fake.Config{}), release: make(chan struct{}), running: map[string]int{}, most: map[string]int{},
		runs: map[string]int{}}
}

func (c *tally) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := c.Backend.Open(ctx, spec)
	return tallied{s, c, spec.Owner}, err
}

func (c *tally) count(owner, code string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{"", owner} {
		c.running[name] += n
		c.most[name] = max(c.most[name], c.running[name])
	}
	if n > 0 {
		c.runs[code]++
	}
}

// now returns how many run, of one tenant or, with "", in all.
func (c *tally) now(owner string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[owner]
}

// ran returns how often each code ran, and how many ran at a time.
func (c *tally) ran() (runs, most map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.runs), maps.Clone(c.most)
}

type tallied struct {
	sandbox.Sandbox
	tally *tally
	owner string
}

func (s tallied) Run(ctx context.Context, p sandbox.Program, h sandbox.Host) (sandbox.Outcome, error) {
	s.tally.count(s.owner, p.Code, 1)
	defer s.tally.count(s.owner, p.Code, -1)
	select {
	case <-s.tally.release:
	case <-ctx.Done():
	}
	return s.Sandbox.Run(ctx, p, h)
}

// daemon is a Scheduler with its own process on a data directory.
type daemon struct {
	*background.Scheduler
	homes  *home.Homes
	runner *execution.Runner
}

func newDaemon(t *testing.T, data string, backend sandbox.Backend, cfg background.Config) daemon {
	t.Helper()
	return newDaemonOf(t, data, execution.Config{Backend: backend}, cfg)
}

func newDaemonOf(t *testing.T, data string, of execution.Config, cfg background.Config) daemon {
	t.Helper()
	process := journal.NewProcess(filepath.Join(data, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	homes, err := home.Open(t.Context(), home.Config{Root: data, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	of.Queue = admit.New(admit.Config{Concurrent: 16})
	runner, err := execution.New(of)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Homes, cfg.Runner = homes, runner
	d := daemon{background.New(cfg), homes, runner}
	t.Cleanup(func() {
		d.Stop()
		runner.Close(context.Background())
		d.Wait()
		homes.Close()
		process.Close()
	})
	return d
}

// dispatch adds n executions of a tenant, each with other code, and returns their ids.
func (d daemon) dispatch(t *testing.T, name string, n int) (ids []string) {
	t.Helper()
	h := d.home(t, name)
	for i := range n {
		code := fmt.Sprintf("result %q", fmt.Sprint(name, i))
		id, err := d.Dispatch(t.Context(), h, execution.StoredRequest{Request: execution.Request{Code: code}}, journal.ResumeOnRestart)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func (d daemon) home(t *testing.T, name string) *home.Home {
	t.Helper()
	id, err := tenant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.homes.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Release(context.Background()) })
	return h
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

// succeeded reports whether all executions have succeeded.
func (d daemon) succeeded(t *testing.T, name string, ids []string) bool {
	t.Helper()
	h := d.home(t, name)
	for _, id := range ids {
		e, err := h.Runs.Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if e.Outcome != journal.Succeeded {
			return false
		}
	}
	return true
}

// A tenant with many executions leaves room for those of another one, and all of them run.
func TestExecutionsAreLimited(t *testing.T) {
	t.Parallel()
	c := newTally()
	d := newDaemon(t, filepath.Join(t.TempDir(), "data"), c, background.Config{Running: 3, PerTenant: 2})
	a, b := d.dispatch(t, "a", 5), d.dispatch(t, "b", 1)
	d.Start()
	eventually(t, "two of a and one of b run", func() bool { return c.now("a") == 2 && c.now("b") == 1 })
	close(c.release)
	eventually(t, "all have ended", func() bool { return d.succeeded(t, "a", a) && d.succeeded(t, "b", b) })
	_, most := c.ran()
	if diff := cmp.Diff(map[string]int{"": 3, "a": 2, "b": 1}, most); diff != "" {
		t.Error(diff)
	}
}

// Each execution runs in one of the daemons on a data directory.
func TestTwoDaemonsRunEachExecutionOnce(t *testing.T) {
	t.Parallel()
	data, c := filepath.Join(t.TempDir(), "data"), newTally()
	close(c.release)
	first := newDaemon(t, data, c, background.Config{})
	second := newDaemon(t, data, c, background.Config{})
	ids := first.dispatch(t, "a", 20)
	first.Start()
	second.Start()
	eventually(t, "all have ended", func() bool { return first.succeeded(t, "a", ids) })
	runs, _ := c.ran()
	for code, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", code, n)
		}
	}
	if len(runs) != len(ids) {
		t.Errorf("%d ran", len(runs))
	}
}

// After Stop nothing is claimed; another daemon runs it.
func TestStopClaimsNoMore(t *testing.T) {
	t.Parallel()
	data, c := filepath.Join(t.TempDir(), "data"), newTally()
	close(c.release)
	d := newDaemon(t, data, c, background.Config{})
	d.Start()
	d.Stop()
	d.Wait()
	ids := d.dispatch(t, "a", 1)
	d.Wake()
	d.Wait()
	if runs, _ := c.ran(); len(runs) != 0 {
		t.Errorf("%v ran after Stop", runs)
	}
	other := newDaemon(t, data, c, background.Config{})
	other.Start()
	eventually(t, "it has ended", func() bool { return other.succeeded(t, "a", ids) })
}
