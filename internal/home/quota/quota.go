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
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Tables creates the table of quotas.
const Tables = `
CREATE TABLE quotas (
	name TEXT    NOT NULL,
	step INTEGER NOT NULL, -- Unix milliseconds of its start
	used INTEGER NOT NULL,
	PRIMARY KEY (name, step)
) STRICT, WITHOUT ROWID;
`

// Name is the name of a quota, as in the configuration.
type Name string

// The quotas.
const (
	Executions Name = "executions_per_minute"
	CPU        Name = "cpu_seconds_per_day" // counted in milliseconds
	Calls      Name = "calls_per_day"       // of tools of upstream servers
	// ModelTokens are those that ask_llm and tasks exchange with the configured model.
	ModelTokens Name = "model_tokens_per_day"
)

// What ModelUse is made of. These are counted without a limit.
const (
	modelRequests Name = "model_requests"
	modelInput    Name = "model_input_tokens"
	modelOutput   Name = "model_output_tokens"
	modelCost     Name = "model_cost" // in billionths
)

// Names lists all quotas.
var Names = []Name{Executions, CPU, Calls, ModelTokens}

// period returns the period of a quota.
func (n Name) period() time.Duration {
	if n == Executions {
		return time.Minute
	}
	return 24 * time.Hour
}

// unit returns the amount that counts as 1 of the quota.
func (n Name) unit() int64 {
	if n == CPU {
		return 1000
	}
	return 1
}

// Limits are the quotas of a tenant; one that is absent is unlimited.
type Limits map[Name]int64

// Status is the state of one quota.
type Status struct {
	Name   Name
	Limit  int64
	Used   int64 // in the last Period
	Period time.Duration
	// Retry is the time until something of it is available again; 0 means now.
	Retry time.Duration
}

// Left returns how much is available.
func (s Status) Left() int64 { return max(s.Limit-s.Used, 0) }

// Exceeded is the error of a quota that is used up. Its Unwrap returns the message.
type Exceeded struct {
	Status
	err *fault.Error
}

func (e *Exceeded) Error() string { return e.err.Error() }

func (e *Exceeded) Unwrap() error { return e.err }

func (s Status) exceeded() error {
	seconds := RetrySeconds(s.Retry)
	return &Exceeded{s, fault.New(fault.Exhausted, "the quota %s is used up (%d of %d)", s.Name, s.Used, s.Limit).
		WithHint("try again in %s; the operator can raise quotas.%s", spell(time.Duration(seconds)*time.Second), s.Name).WithQuota(string(s.Name))}
}

// RetrySeconds returns whole seconds, rounded up and at least 1.
func RetrySeconds(d time.Duration) int64 { return max(int64(math.Ceil(d.Seconds())), 1) }

// spell returns a duration in its largest unit of which there are two, rounded up. Hours have minutes,
// so that a day and a step is not called 25 hours.
func spell(d time.Duration) string {
	unit, name := time.Second, "second"
	switch {
	case d >= 2*time.Hour:
		minutes := (d + time.Minute - 1) / time.Minute
		switch text := fmt.Sprintf("%d hours", minutes/60); minutes % 60 {
		case 0:
			return text
		case 1:
			return text + " and 1 minute"
		default:
			return fmt.Sprintf("%s and %d minutes", text, minutes%60)
		}
	case d >= 2*time.Minute:
		unit, name = time.Minute, "minute"
	}
	n := (d + unit - 1) / unit
	if n == 1 {
		return "1 " + name
	}
	return fmt.Sprintf("%d %ss", n, name)
}

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

// writeLater schedules a write. The caller holds the lock.
func (c *Counter) writeLater(delay time.Duration) {
	if c.timer == nil && !c.closed {
		c.writes.Add(1)
		c.timer = time.AfterFunc(delay, func() { defer c.writes.Done(); c.write() })
	}
}

// writeAfter bounds the delay of a write, writeAgain that of another one after a failure, and
// readEvery the age of the counts of other processes.
const (
	writeAfter = 500 * time.Millisecond
	writeAgain = 5 * time.Second
	readEvery  = 500 * time.Millisecond
)

// refresh reads what all processes have used. The caller holds the lock.
func (c *Counter) refresh(ctx context.Context) error {
	now := c.now()
	if since := now.Sub(c.read); !c.read.IsZero() && since >= 0 && since < readEvery {
		return nil
	}
	windows := map[Name]window{}
	err := c.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT name, step, used FROM quotas")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n Name
			var step, used int64
			if err := rows.Scan(&n, &step, &used); err != nil {
				return err
			}
			if windows[n] == nil {
				windows[n] = window{}
			}
			windows[n][step] = used
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("read the quotas: %w", err)
	}
	for n, byStep := range windows {
		if byStep.isAhead(n, now) {
			if err := c.moveBack(ctx, n, now, byStep); err != nil {
				return fmt.Errorf("correct the quotas after the clock was put back: %w", err)
			}
		}
	}
	c.windows, c.read = windows, now
	for n, byStep := range c.unwritten {
		for step, used := range byStep {
			c.window(n)[step] += used
		}
	}
	return nil
}

// isAhead reports whether a step is in the future: the clock was put back since.
func (w window) isAhead(n Name, now time.Time) bool {
	last := n.step(now) + (n.period() / steps).Milliseconds()
	for step := range w {
		if step > last {
			return true
		}
	}
	return false
}

// moveBack counts what was used in the future as used now, so that it is available again after one
// period. The caller holds the lock.
func (c *Counter) moveBack(ctx context.Context, n Name, now time.Time, of window) error {
	step := n.step(now)
	for _, w := range []window{of, c.unwritten[n]} {
		for at, used := range w {
			if at > step {
				delete(w, at)
				w[step] += used
			}
		}
	}
	return c.db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO quotas (name, step, used) SELECT name, ?1, sum(used) FROM quotas WHERE name = ?2 AND step > ?1 GROUP BY name
			ON CONFLICT (name, step) DO UPDATE SET used = used + excluded.used`, step, n)
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM quotas WHERE name = ? AND step > ?", n, step)
		}
		return err
	})
}

// write adds what was counted to the database, and deletes what has expired.
func (c *Counter) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if len(c.unwritten) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	now := c.now()
	err := c.db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for n, byStep := range c.unwritten {
			for step, used := range byStep {
				if _, err := tx.ExecContext(ctx, `INSERT INTO quotas (name, step, used) VALUES (?, ?, ?)
					ON CONFLICT (name, step) DO UPDATE SET used = used + excluded.used`, n, step, used); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM quotas WHERE name = ? AND step < ?", n, now.Add(-2*n.period()).UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.log.Warn("write the quotas; they are written later", "error", err)
		c.writeLater(writeAgain)
		return
	}
	clear(c.unwritten)
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
