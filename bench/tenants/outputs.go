package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/mix"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// OutputsConfig of Outputs.
type OutputsConfig struct {
	Config
	Callers  int           // of tenant A; 0 means 32
	Rounds   int           // 0 means 4
	Duration time.Duration // of each phase, of which a round has two; 0 means 15 s
}

// OutputsResult is the outcome of Outputs.
type OutputsResult struct {
	OutputsConfig
	Alone, Beside *Phase // tenant B, in all rounds
	Flood         Flood  // executions of tenant A
}

// outputCode prints 20 MB with personal values.
const outputCode = "for i in range(20): print('mail ada@example.com ' * 50_000)"

// Outputs measures tenant B, which runs sums, alone and with callers of tenant A whose executions
// print 20 MB, in turns within one run.
func Outputs(ctx context.Context, cfg OutputsConfig) (*OutputsResult, error) {
	if cfg.Callers == 0 {
		cfg.Callers = 32
	}
	if cfg.Rounds == 0 {
		cfg.Rounds = 4
	}
	if cfg.Duration == 0 {
		cfg.Duration = 15 * time.Second
	}
	phase := func() *Phase {
		return &Phase{Tenants: 1, Duration: cfg.Duration, Kinds: map[string][]time.Duration{}}
	}
	res := &OutputsResult{OutputsConfig: cfg, Alone: phase(), Beside: phase()}
	return res, cfg.withRig(ctx, func(r *rig.Rig) error { return cfg.run(ctx, r, res) })
}

func (c OutputsConfig) run(ctx context.Context, r *rig.Rig, res *OutputsResult) (err error) {
	if err := configure(r, 2, nil); err != nil {
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
	warm := &Phase{Duration: time.Second, Kinds: map[string][]time.Duration{}}
	warm.paceSums(ctx, b)
	for round := range c.Rounds {
		c.log("round %d: tenant B alone for %v", round+1, c.Duration)
		res.Alone.paceSums(ctx, b)
		c.log("round %d: beside %d callers of tenant A", round+1, c.Callers)
		noise, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		all.Go(func() { floodOutputs(noise, d, c.Callers, &res.Flood) })
		warm.paceSums(ctx, b) // until its executions print
		res.Beside.paceSums(ctx, b)
		cancel()
		all.Wait()
		warm.paceSums(ctx, b) // until they have ended
	}
	return context.Cause(ctx)
}

// paceSums runs sums with pauses for the duration of the phase.
func (p *Phase) paceSums(ctx context.Context, c *mix.Caller) {
	sums := slices.DeleteFunc(slices.Clone(mix.Tenants), func(o mix.Operation) bool { return o.Name != "sum" })
	sums[0].Share = 100
	for n, began := int64(0), time.Now(); time.Since(began) < p.Duration && ctx.Err() == nil; n++ {
		one := time.Now()
		kind, err := c.Run(ctx, sums, n)
		p.add(kind, time.Since(one), err)
		time.Sleep(pause)
	}
}

// floodOutputs runs outputCode with concurrent callers of tenant A until ctx ends.
func floodOutputs(ctx context.Context, d *rig.Daemon, callers int, f *Flood) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			client, err := d.ConnectAs(ctx, token(uid(tenantA)))
			if err != nil {
				return
			}
			for ctx.Err() == nil {
				a, err := client.Call(ctx, "execute_code", rig.Args{"code": outputCode})
				mu.Lock()
				switch {
				case err != nil && ctx.Err() == nil:
					f.Other, f.Example = f.Other+1, err.Error()
				case err == nil && a.Failed:
					f.Refused, f.Example = f.Refused+1, a.Text
				case err == nil:
					f.Accepted++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// maxOutputsSlowdown bounds the p99 of B with A, relative to that of B alone.
const maxOutputsSlowdown = 4

// Slowdown returns the p99 of B with A, relative to that of B alone.
func (r *OutputsResult) Slowdown() float64 {
	return float64(percentile(r.Beside.Times, 99)) / float64(percentile(r.Alone.Times, 99))
}

// Errors returns the failed operations.
func (r *OutputsResult) Errors() (all []string) {
	if n := r.Alone.Failures + r.Beside.Failures; n > 0 {
		all = append(all, fmt.Sprintf("tenant B: %d errors: %.300s", n, append(r.Alone.Examples, r.Beside.Examples...)[0]))
	}
	if r.Flood.Other > 0 || r.Flood.Accepted == 0 {
		all = append(all, fmt.Sprintf("tenant A: %d executions, %d errors: %.300s", r.Flood.Accepted, r.Flood.Other, r.Flood.Example))
	}
	return all
}

// Exceeded returns the bounds that were exceeded.
func (r *OutputsResult) Exceeded() (all []string) {
	if s := r.Slowdown(); s > maxOutputsSlowdown {
		all = append(all, fmt.Sprintf("the p99 of tenant B is %.1f times that without tenant A, at most %d times is allowed", s,
			maxOutputsSlowdown))
	}
	return all
}

// Print writes the result as text.
func (r *OutputsResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%d rounds of %v alone and beside %d callers of tenant A; %s\n\n", r.Rounds, r.Duration, r.Callers, report.ThisMachine())
	report.PrintTable(w, [][]string{{"tenant B", "operations", "refused or failed", "p50", "p99", "max"},
		timesRow("alone", fmt.Sprint(r.Alone.Failures), r.Alone.Times), timesRow("beside A", fmt.Sprint(r.Beside.Failures),
			r.Beside.Times)})
	fmt.Fprintf(w, "\ntenant A: %d outputs of 20 MB, %d failed or refused\np99 of B beside A, relative to alone: %.1f\n", r.Flood.Accepted,
		r.Flood.Refused, r.Slowdown())
}
