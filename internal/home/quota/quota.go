// Package quota counts what a tenant has used in a period of time, and refuses more than its
// quotas allow.
//
// A period is divided into steps, and the usage of a step expires together: a quota is
// available again late rather than early. Counts are kept in memory and written to the tenant's
// database within a second, so that they span restarts and several processes: two processes
// together exceed a quota by at most what they use in that second. A Counter is safe for
// concurrent use.
package quota

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// steps is the number of steps of a period.
const steps = 60

// Counter counts for one tenant.
type Counter struct {
	limits  Limits
	db      *store.DB
	log     *slog.Logger
	now     func() time.Time
	refused func(Name)

	mu        sync.Mutex
	windows   map[Name]window
	unwritten map[Name]map[int64]int64 // by step
	read      time.Time                // when windows were last read
	timer     *time.Timer
	closed    bool
	writes    sync.WaitGroup
}

// window contains what was used in each step of the last period, of all processes.
type window map[int64]int64

// Config of a Counter.
type Config struct {
	DB     *store.DB    // contains Tables; required
	Limits Limits       // nothing else is counted
	Log    *slog.Logger // nil discards
	Now    func() time.Time
	// Refused is called with the quota of each Exceeded error; nil means no call.
	Refused func(Name)
}

// New returns a Counter.
func New(cfg Config) *Counter {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Refused == nil {
		cfg.Refused = func(Name) {}
	}
	return &Counter{
		limits:    cfg.Limits,
		db:        cfg.DB,
		log:       cfg.Log,
		now:       cfg.Now,
		refused:   cfg.Refused,
		windows:   map[Name]window{},
		unwritten: map[Name]map[int64]int64{},
	}
}

// Limits reports whether a quota is configured.
func (c *Counter) Limits(n Name) bool {
	_, limited := c.limits[n]
	return limited
}

// Check returns an Exceeded error if nothing of a quota is left.
func (c *Counter) Check(ctx context.Context, n Name) error { return c.take(ctx, n, 0) }

// Take takes 1 from a quota, or returns an Exceeded error.
func (c *Counter) Take(ctx context.Context, n Name) error { return c.take(ctx, n, n.unit()) }

// TakeExecution counts an execution, or returns an Exceeded error if its quota or that of CPU time is used up.
func TakeExecution(ctx context.Context, c *Counter) error {
	if err := c.Check(ctx, CPU); err != nil {
		return err
	}
	return c.Take(ctx, Executions)
}

func (c *Counter) take(ctx context.Context, n Name, amount int64) error {
	limit, limited := c.limits[n]
	if !limited {
		return nil
	}
	err := c.takeFrom(ctx, n, limit, amount)
	if _, exceeded := errors.AsType[*Exceeded](err); exceeded {
		c.refused(n)
	}
	return err
}

func (c *Counter) takeFrom(ctx context.Context, n Name, limit, amount int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(ctx); err != nil {
		return err
	}
	if s := c.status(n, limit); s.Left() == 0 {
		return s.exceeded()
	}
	c.add(n, amount)
	return nil
}

// AddCPU counts the CPU time of code that has run.
func (c *Counter) AddCPU(d time.Duration) {
	if _, limited := c.limits[CPU]; !limited || d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(CPU, max(d.Milliseconds(), 1))
}

// ModelUse is what requests to the configured language model have cost.
type ModelUse struct {
	Requests, Input, Output int64   // Input and Output in tokens
	Cost                    float64 // in the currency of the configured prices; 0 without prices
}

// AddModel counts requests to the configured language model.
func (c *Counter) AddModel(u ModelUse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(modelRequests, max(u.Requests, 0))
	c.add(modelInput, max(u.Input, 0))
	c.add(modelOutput, max(u.Output, 0))
	c.add(modelCost, max(int64(math.Round(u.Cost*1e9)), 0))
	if c.Limits(ModelTokens) {
		c.add(ModelTokens, max(u.Input+u.Output, 0))
	}
}

// ModelUse returns the use of the last 24 hours.
func (c *Counter) ModelUse(ctx context.Context) (ModelUse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(ctx); err != nil {
		return ModelUse{}, err
	}
	used := func(n Name) int64 { return c.status(n, 0).Used }
	return ModelUse{used(modelRequests), used(modelInput), used(modelOutput), float64(used(modelCost)) / 1e9}, nil
}

// Status returns the state of the configured quotas.
func (c *Counter) Status(ctx context.Context) ([]Status, error) {
	if len(c.limits) == 0 {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	var all []Status
	for _, n := range Names {
		if limit, limited := c.limits[n]; limited {
			all = append(all, c.status(n, limit))
		}
	}
	return all, nil
}

// step returns the start of the step of a time.
func (n Name) step(t time.Time) int64 {
	size := (n.period() / steps).Milliseconds()
	return t.UnixMilli() / size * size
}

// status computes the state of a quota. The caller holds the lock.
func (c *Counter) status(n Name, limit int64) Status {
	s := Status{Name: n, Limit: limit, Period: n.period()}
	now, oldest, used := c.now(), int64(math.MaxInt64), int64(0)
	begin := now.Add(-n.period()).UnixMilli()
	w := c.window(n)
	for step, amount := range w {
		if step <= begin-(n.period()/steps).Milliseconds() {
			delete(w, step)
			continue
		}
		used, oldest = used+amount, min(oldest, step)
	}
	if s.Used = (used + n.unit() - 1) / n.unit(); s.Left() == 0 && used > 0 {
		end := time.UnixMilli(oldest).Add(n.period() + n.period()/steps)
		s.Retry = max(end.Sub(now), time.Millisecond)
	}
	return s
}

func (c *Counter) window(n Name) window {
	w := c.windows[n]
	if w == nil {
		w = window{}
		c.windows[n] = w
	}
	return w
}

// add counts an amount. The caller holds the lock.
func (c *Counter) add(n Name, amount int64) {
	if amount == 0 {
		return
	}
	step := n.step(c.now())
	c.window(n)[step] += amount
	if c.unwritten[n] == nil {
		c.unwritten[n] = map[int64]int64{}
	}
	c.unwritten[n][step] += amount
	c.writeLater(writeAfter)
}

// Close writes what was counted. It is idempotent.
func (c *Counter) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil && c.timer.Stop() {
		c.writes.Done()
	}
	c.mu.Unlock()
	c.writes.Wait()
	c.write()
	return nil
}
