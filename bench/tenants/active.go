package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// ActiveConfig of Active.
type ActiveConfig struct {
	Config
	Counts   []int         // of active tenants, in each round in order; nil means 1, 30, 60, 100, 1,000
	Callers  int           // concurrent ones; 0 means 2
	Rounds   int           // 0 means 3
	Duration time.Duration // of each phase; 0 means 10 s
}

// ActiveResult is the outcome of Active.
type ActiveResult struct {
	ActiveConfig
	Phases []*Phase // one for each count, in all rounds
}

// Active measures sums of tenants that are active in turn, a call each, so that no two calls in a row
// are of one tenant. The callers leave the machine unsaturated: what is measured is the time of a call.
func Active(ctx context.Context, cfg ActiveConfig) (*ActiveResult, error) {
	if cfg.Counts == nil {
		cfg.Counts = []int{1, 30, 60, 100, 1000}
	}
	if cfg.Callers == 0 {
		cfg.Callers = 2
	}
	if cfg.Rounds == 0 {
		cfg.Rounds = 3
	}
	if cfg.Duration == 0 {
		cfg.Duration = 10 * time.Second
	}
	res := &ActiveResult{ActiveConfig: cfg}
	for _, n := range cfg.Counts {
		res.Phases = append(res.Phases, &Phase{Tenants: n, Kinds: map[string][]time.Duration{}})
	}
	for round := range cfg.Rounds {
		for _, p := range res.Phases {
			cfg.log("round %d: %d tenants", round+1, p.Tenants)
			if err := cfg.withRig(ctx, func(r *rig.Rig) error { return cfg.run(ctx, r, p) }); err != nil {
				return nil, err
			}
		}
	}
	return res, nil
}

func (c ActiveConfig) run(ctx context.Context, r *rig.Rig, p *Phase) (err error) {
	if err := configure(r, p.Tenants, nil); err != nil {
		return err
	}
	d, err := r.ServeHTTP(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	clients := make([]*rig.Client, max(p.Tenants, c.Callers))
	for i := range clients {
		if clients[i], err = d.ConnectAs(ctx, token(uid(i%p.Tenants))); err != nil {
			return err
		}
		if _, err := clients[i].Execute(ctx, "1+1", nil); err != nil { // creates the tenant
			return err
		}
	}
	daemon, children := cpu(d)
	began := time.Now()
	var all sync.WaitGroup
	for w := range c.Callers {
		all.Go(func() {
			for n := w; time.Since(began) < c.Duration && ctx.Err() == nil; n += c.Callers {
				one := time.Now()
				out, err := clients[n%len(clients)].Execute(ctx, fmt.Sprintf("%d+1", n), nil)
				if err == nil && strings.TrimSpace(string(out.Result)) != fmt.Sprint(n+1) {
					err = fmt.Errorf("%d+1 is %s %s", n, out.Result, out.Error)
				}
				p.add("sum", time.Since(one), err)
			}
		})
	}
	all.Wait()
	p.Duration += time.Since(began)
	after, ended := cpu(d)
	p.Daemon, p.Children = p.Daemon+after-daemon, p.Children+ended-children
	own, whole := memory(d)
	p.Samples = append(p.Samples, Sample{p.Duration, own, whole})
	return context.Cause(ctx)
}

// maxActiveSlowdown bounds the median of the largest number of tenants, relative to that of one.
const maxActiveSlowdown = 1.5

// Slowdown returns the median of the last count, relative to that of the first.
func (r *ActiveResult) Slowdown() float64 {
	return float64(percentile(r.Phases[len(r.Phases)-1].Times, 50)) / float64(percentile(r.Phases[0].Times, 50))
}

// Errors returns the failed operations.
func (r *ActiveResult) Errors() (all []string) {
	for _, p := range r.Phases {
		if p.Failures > 0 || len(p.Times) == 0 {
			all = append(all, fmt.Sprintf("%d tenants: %d errors and wrong results of %d: %.300s", p.Tenants, p.Failures,
				p.Failures+len(p.Times), p.Examples))
		}
	}
	return all
}

// Exceeded returns the bounds that were exceeded.
func (r *ActiveResult) Exceeded() (all []string) {
	if s := r.Slowdown(); s > maxActiveSlowdown {
		all = append(all, fmt.Sprintf("the median with %d tenants is %.1f times that with %d, at most %.1f is allowed",
			r.Counts[len(r.Counts)-1], s, r.Counts[0], maxActiveSlowdown))
	}
	return all
}

// Print writes the result as text.
func (r *ActiveResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%d rounds of %v; %d callers take the tenants in turn; %s\n\n", r.Rounds, r.Duration, r.Callers, report.ThisMachine())
	rows := [][]string{{"tenants", "per second", "p50", "p99", "processor per call", "daemon", "all processes"}}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
	for _, p := range r.Phases {
		last := p.Samples[len(p.Samples)-1]
		rows = append(rows, []string{fmt.Sprint(p.Tenants), fmt.Sprintf("%.0f", p.Rate()), ms(percentile(p.Times, 50)),
			ms(percentile(p.Times, 99)),
			ms((p.Daemon + p.Children) / time.Duration(max(1, len(p.Times)))), fmt.Sprintf("%d MB", last.Daemon/mb), fmt.Sprintf("%d MB",
				last.All/mb)})
	}
	report.PrintTable(w, rows)
	fmt.Fprintf(w, "\nmedian with %d tenants, relative to %d: %.1f\n", r.Counts[len(r.Counts)-1], r.Counts[0], r.Slowdown())
}
