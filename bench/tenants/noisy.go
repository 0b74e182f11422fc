package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/mix"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// NoisyConfig of Noisy.
type NoisyConfig struct {
	Config
	Duration time.Duration // of each of the three phases; 0 means 60 s
}

// NoisyResult is the outcome of Noisy.
type NoisyResult struct {
	Duration time.Duration
	Floods   map[string]*Flood // of tenant A, by kind
	Alone    []*Phase          // tenant B before and after the flood
	Beside   *Phase            // tenant B during it
}

// Flood counts requests of one kind.
type Flood struct {
	Quota    string // as text
	Accepted int
	Refused  int
	Other    int // errors other than a refusal
	Example  string
}

// The tenants of Noisy.
const (
	tenantA = 1
	tenantB = 0
)

// The quotas of tenant A.
const (
	quotaExecutions = 600 // per minute
	quotaCalls      = 500 // per day
	quotaMB         = 32  // of disk
	callsPerCode    = 8   // of one execution
	excess          = 10  // A requests this many times its quota
)

// floodCode uses a processor for a while and calls a tool several times.
const floodCode = `from servers.upstream import get_version
accepted, total = 0, sum(range(400_000))
for _ in range(%d):
    try:
        get_version()
        accepted += 1
    except ToolError:
        pass
result = accepted
`

// Noisy measures tenant B alone, together with tenant A, and alone again. A requests ten times its
// quotas of executions, calls and disk space, and uses wrong tokens.
func Noisy(ctx context.Context, cfg NoisyConfig) (*NoisyResult, error) {
	if cfg.Duration == 0 {
		cfg.Duration = time.Minute
	}
	res := &NoisyResult{Duration: cfg.Duration, Floods: map[string]*Flood{
		"executions":   {Quota: fmt.Sprintf("%d per minute", quotaExecutions)},
		"calls":        {Quota: fmt.Sprintf("%d per day", quotaCalls)},
		"disk writes":  {Quota: fmt.Sprintf("%d of 1 MB", quotaMB)},
		"wrong tokens": {Quota: "none"},
	}}
	return res, cfg.withRig(ctx, func(r *rig.Rig) error { return cfg.run(ctx, r, res) })
}

func (c NoisyConfig) run(ctx context.Context, r *rig.Rig, res *NoisyResult) (err error) {
	err = configure(r, 2, settings{"tenants": settings{uid(tenantA): settings{
		"quotas":    settings{"executions_per_minute": quotaExecutions, "calls_per_day": quotaCalls},
		"workspace": settings{"max_mb": quotaMB},
	}}})
	if err != nil {
		return err
	}
	d, err := r.ServeHTTP(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	client, err := d.ConnectAs(ctx, token(uid(tenantB)))
	if err != nil {
		return err
	}
	b := &mix.Caller{Client: client, Name: "b"}
	warm := &Phase{Duration: min(c.Duration, 5*time.Second), Kinds: map[string][]time.Duration{}}
	warm.pace(ctx, b) // first uses: the upstream server, the workspace
	c.log("tenant B alone for %v", c.Duration)
	res.Alone = append(res.Alone, c.measure(ctx, b))
	c.log("tenant B beside tenant A")
	noise, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { flood(noise, d, res.Floods) })
	res.Beside = c.measure(ctx, b)
	cancel()
	all.Wait()
	c.log("tenant B alone again")
	res.Alone = append(res.Alone, c.measure(ctx, b))
	return context.Cause(ctx)
}

func (c NoisyConfig) measure(ctx context.Context, b *mix.Caller) *Phase {
	p := &Phase{Tenants: 1, Duration: c.Duration, Kinds: map[string][]time.Duration{}}
	p.pace(ctx, b)
	return p
}

// pause is that of tenant B between two operations.
const pause = 20 * time.Millisecond

// pace runs operations with pauses for the duration of the phase.
func (p *Phase) pace(ctx context.Context, c *mix.Caller) {
	for n, began := int64(0), time.Now(); time.Since(began) < p.Duration && ctx.Err() == nil; n++ {
		one := time.Now()
		kind, err := c.Run(ctx, mix.Tenants, n)
		p.add(kind, time.Since(one), err)
		time.Sleep(pause)
	}
}

// flood sends the requests of tenant A until ctx ends, each kind at a steady rate that
// amounts to ten times its quota in a minute.
func flood(ctx context.Context, d *rig.Daemon, floods map[string]*Flood) {
	var mu sync.Mutex
	count := func(kind string, accepted, refused int, err error) {
		mu.Lock()
		defer mu.Unlock()
		f := floods[kind]
		f.Accepted += accepted
		f.Refused += refused
		if err != nil && ctx.Err() == nil {
			f.Other, f.Example = f.Other+1, err.Error()
		}
	}
	content := strings.Repeat("noise ", 1<<20/6)
	var all sync.WaitGroup
	all.Go(func() {
		steady(ctx, excess*quotaExecutions/60, 64, d, func(client *rig.Client, _ int64) { floodExecution(ctx, client, count) })
	})
	all.Go(func() {
		steady(ctx, excess*quotaMB/60., 8, d, func(client *rig.Client, n int64) {
			a, err := client.Call(ctx, "write_workspace_file", rig.Args{"filename": fmt.Sprintf("noise%d", n), "content": content})
			countAnswer(count, "disk writes", a.Text, !a.Failed, err)
		})
	})
	all.Go(func() {
		steady(ctx, 100, 8, d, func(*rig.Client, int64) {
			_, err := d.ConnectAs(ctx, "a-token-that-nobody-has")
			if err != nil && strings.Contains(err.Error(), "HTTP 401") {
				count("wrong tokens", 0, 1, nil)
			} else {
				count("wrong tokens", 0, 0, fmt.Errorf("a wrong token: %v", err))
			}
		})
	})
	all.Wait()
}

// counter counts requests of a flood.
type counter func(kind string, accepted, refused int, err error)

func floodExecution(ctx context.Context, client *rig.Client, count counter) {
	a, err := client.Call(ctx, "execute_code", rig.Args{"code": fmt.Sprintf(floodCode, callsPerCode)})
	var x rig.Execution
	if err == nil {
		err = a.Read(&x)
	}
	countAnswer(count, "executions", a.Text, x.Success, err)
	if calls := 0; x.Success {
		_, err := fmt.Sscan(string(x.Result), &calls)
		count("calls", calls, callsPerCode-calls, err)
	}
}

// countAnswer counts an answer; a refusal names the quota.
func countAnswer(count counter, kind, text string, accepted bool, err error) {
	refused := strings.Contains(text, `"quota":`) || strings.Contains(text, "the workspace quota is reached")
	switch {
	case err != nil:
		count(kind, 0, 0, err)
	case accepted:
		count(kind, 1, 0, nil)
	case refused:
		count(kind, 0, 1, nil)
	default:
		count(kind, 0, 0, errors.New(text))
	}
}

// steady calls do at a rate until ctx ends, from concurrent callers with a connection of
// tenant A each. If all are busy, calls are late.
func steady(ctx context.Context, rate float64, callers int, d *rig.Daemon, do func(client *rig.Client, n int64)) {
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			client, err := d.ConnectAs(ctx, token(uid(tenantA)))
			if err != nil {
				return
			}
			for ctx.Err() == nil {
				n := next.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(time.Until(began.Add(time.Duration(float64(n) / rate * float64(time.Second))))):
					do(client, n)
				}
			}
		})
	}
	all.Wait()
}

// maxSlowdown bounds the p99 of B together with A, relative to that of B alone.
const maxSlowdown = 10

// Slowdown returns the p99 of B together with A relative to the mean of those alone.
func (r *NoisyResult) Slowdown() float64 {
	alone := percentile(r.Alone[0].Times, 99) + percentile(r.Alone[1].Times, 99)
	return 2 * float64(percentile(r.Beside.Times, 99)) / float64(alone)
}

// Errors returns the refused and failed operations of tenant B.
func (r *NoisyResult) Errors() (all []string) {
	for _, p := range append(slices.Clone(r.Alone), r.Beside) {
		if p.Failures > 0 {
			all = append(all, fmt.Sprintf("tenant B: %d errors, refusals and wrong results: %.300s", p.Failures, p.Examples[0]))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Floods)) {
		if f := r.Floods[kind]; f.Other > 0 {
			all = append(all, fmt.Sprintf("tenant A: %d %s failed in another way: %s", f.Other, kind, f.Example))
		}
	}
	return all
}

// Exceeded returns the bounds that were exceeded.
func (r *NoisyResult) Exceeded() (all []string) {
	if s := r.Slowdown(); s > maxSlowdown {
		all = append(all, fmt.Sprintf("the p99 of tenant B is %.1f times that without tenant A, at most %d times is allowed", s,
			maxSlowdown))
	}
	return all
}

// Print writes the result as text.
func (r *NoisyResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%v each; %s\n\n", r.Duration, report.ThisMachine())
	rows := [][]string{{"tenant A", "quota", "accepted", "refused", "other errors"}}
	for _, kind := range slices.Sorted(maps.Keys(r.Floods)) {
		f := r.Floods[kind]
		rows = append(rows, []string{kind, f.Quota, fmt.Sprint(f.Accepted), fmt.Sprint(f.Refused), fmt.Sprint(f.Other)})
	}
	report.PrintTable(w, rows)
	fmt.Fprintln(w)
	rows = [][]string{{"tenant B", "operations", "refused or failed", "p50", "p99", "max"}}
	for i, p := range []*Phase{r.Alone[0], r.Beside, r.Alone[1]} {
		name := []string{"alone", "beside A", "alone again"}[i]
		rows = append(rows, timesRow(name, fmt.Sprint(p.Failures), p.Times))
		for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
			rows = append(rows, timesRow("  "+kind, "", p.Kinds[kind]))
		}
	}
	report.PrintTable(w, rows)
	fmt.Fprintf(w, "\np99 of B beside A, relative to alone: %.1f\n", r.Slowdown())
}

func timesRow(name, failures string, times []time.Duration) []string {
	row := []string{name, fmt.Sprint(len(times)), failures}
	for _, q := range []int{50, 99, 100} {
		row = append(row, fmt.Sprintf("%.1f ms", percentile(times, q).Seconds()*1000))
	}
	return row
}
