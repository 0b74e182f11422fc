package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/mix"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// LoadConfig of Load.
type LoadConfig struct {
	Config
	Tenants  int           // 0 means 1,000
	Callers  int           // concurrent ones, each with a session; 0 means 200
	Duration time.Duration // of the run with all tenants; 0 means 10 minutes
}

func (c LoadConfig) withDefaults() LoadConfig {
	if c.Tenants == 0 {
		c.Tenants = 1000
	}
	if c.Callers == 0 {
		c.Callers = 200
	}
	if c.Duration == 0 {
		c.Duration = 10 * time.Minute
	}
	return c
}

// LoadResult has the phases of a run, in order: one tenant, many, one.
type LoadResult struct {
	Config LoadConfig
	Phases []*Phase
}

// Phase is one daemon under load.
type Phase struct {
	Tenants  int
	Duration time.Duration
	Times    []time.Duration            // of all operations
	Kinds    map[string][]time.Duration // the same by kind
	Failures int
	Examples []string // of failures
	Samples  []Sample
	Logged   string // the end of the daemon's log
	// Processor time: the daemon, and its sandboxes as far as they
	// have ended.
	Daemon, Children time.Duration

	mu sync.Mutex
}

// Sample is the memory at one moment.
type Sample struct {
	At          time.Duration
	Daemon, All int64 // PSS in bytes: the daemon, and all its processes
}

// visit is the number of operations of a caller as the same tenant. It then is another one,
// so that all of them are active in turn.
const visit = 25

// Load runs the mix with one tenant, with many and with one again. The callers, their
// sessions, connections and files are the same; only the tokens differ.
func Load(ctx context.Context, cfg LoadConfig) (*LoadResult, error) {
	cfg = cfg.withDefaults()
	res := &LoadResult{Config: cfg}
	for _, p := range []*Phase{{Tenants: 1, Duration: cfg.Duration / 5}, {Tenants: cfg.Tenants, Duration: cfg.Duration},
		{Tenants: 1, Duration: cfg.Duration / 5}} {
		p.Kinds = map[string][]time.Duration{}
		if err := cfg.withRig(ctx, func(r *rig.Rig) error { return cfg.runPhase(ctx, r, p) }); err != nil {
			return nil, err
		}
		res.Phases = append(res.Phases, p)
	}
	return res, nil
}

func (c LoadConfig) runPhase(ctx context.Context, r *rig.Rig, p *Phase) (err error) {
	const slots = 8
	err = configure(r, p.Tenants, settings{
		"sandbox":  settings{"concurrency": slots, "tenant_concurrency": slots},
		"sessions": settings{"live": 2 * c.Callers, "per_tenant": 2 * c.Callers}, // room for sessions that were left
	})
	if err != nil {
		return err
	}
	d, err := r.ServeHTTP(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	began := time.Now()
	connections, err := c.connect(ctx, d, p.Tenants)
	if err != nil {
		return err
	}
	c.log("%d tenants: %d connections after %v; running %d callers for %v", p.Tenants, len(connections), time.Since(began).
		Round(time.Second), c.Callers, p.Duration)
	daemon, children := cpu(d)
	timed, cancel := context.WithTimeout(ctx, p.Duration)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { p.watch(timed, d, c) })
	var number atomic.Int64
	for i := range c.Callers {
		var own []*mix.Caller
		for j := i; j < len(connections); j += c.Callers {
			own = append(own, connections[j])
		}
		all.Go(func() { p.call(timed, own, &number) })
	}
	all.Wait()
	p.Logged = logged(r)
	p.Daemon, p.Children = cpu(d)
	p.Daemon, p.Children = p.Daemon-daemon, p.Children-children
	return context.Cause(ctx)
}

// connect opens as many connections as there are tenants in the large phase, and runs
// something on each, which creates the tenant.
func (c LoadConfig) connect(ctx context.Context, d *rig.Daemon, tenants int) ([]*mix.Caller, error) {
	all := make([]*mix.Caller, max(c.Tenants, c.Callers))
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(all) && errs[w] == nil; i += len(errs) {
				var client *rig.Client
				if client, errs[w] = d.ConnectAs(ctx, token(uid(i%tenants))); errs[w] == nil {
					// callers use their connections in turn
					all[i] = &mix.Caller{Client: client, Name: fmt.Sprintf("c%d", i), Skills: fmt.Sprintf("s%d", i%c.Callers)}
					_, errs[w] = all[i].Run(ctx, mix.Tenants, 0)
				}
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// call runs operations until ctx ends, as one tenant after another.
func (p *Phase) call(ctx context.Context, connections []*mix.Caller, number *atomic.Int64) {
	for i := 0; ctx.Err() == nil; i++ {
		c := connections[i%len(connections)]
		c.LeaveSession()
		for n := 0; n < visit && ctx.Err() == nil; n++ {
			began := time.Now()
			one, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute) // longer than the program's queue timeout
			kind, err := c.Run(one, mix.Tenants, number.Add(1))
			cancel()
			if ctx.Err() == nil {
				p.add(kind, time.Since(began), err)
			}
		}
	}
}

func (p *Phase) add(kind string, took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.Failures++; len(p.Examples) < 20 {
			p.Examples = append(p.Examples, fmt.Sprintf("%s: %v", kind, err))
		}
		return
	}
	p.Kinds[kind] = append(p.Kinds[kind], took)
	p.Times = append(p.Times, took)
}

// watch samples the memory until ctx ends: 60 times in the long phase, and equally often per
// second in the others, since each sample takes processor time.
func (p *Phase) watch(ctx context.Context, d *rig.Daemon, cfg LoadConfig) {
	tick := time.NewTicker(max(cfg.Duration/60, time.Second))
	defer tick.Stop()
	began := time.Now()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		daemon, all := memory(d)
		p.mu.Lock()
		p.Samples = append(p.Samples, Sample{time.Since(began), daemon, all})
		done, failures := len(p.Times), p.Failures
		p.mu.Unlock()
		if n%6 == 0 {
			cfg.log("%v: %d operations, %d failures; daemon %d MB, all %d MB", time.Since(began).Round(time.Second), done, failures,
				daemon/mb, all/mb)
		}
	}
}

const mb = 1 << 20

// Rate returns the operations per second.
func (p *Phase) Rate() float64 { return float64(len(p.Times)) / p.Duration.Seconds() }

// Memory returns medians of the samples of the third and of the last tenth of the phase:
// after ten minutes, those of minutes 2 to 3 and 9 to 10.
func (p *Phase) Memory() (early, late Sample) {
	tenth := func(n int) Sample {
		var daemon, all []int64
		for _, s := range p.Samples {
			if s.At >= p.Duration*time.Duration(n)/10 && s.At <= p.Duration*time.Duration(n+1)/10 {
				daemon, all = append(daemon, s.Daemon), append(all, s.All)
			}
		}
		return Sample{p.Duration * time.Duration(n) / 10, median(daemon), median(all)}
	}
	return tenth(2), tenth(9)
}

func median(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(v))[len(v)/2]
}

// The bounds of Load: rate relative to one tenant, and growth of the memory.
const (
	minRate       = 0.9
	allowedGrowth = 0.10 // and mbSlack
	mbSlack       = 8 * mb
)

// Ratio returns the rate of many tenants relative to the mean of the others.
func (r *LoadResult) Ratio() float64 {
	return 2 * r.Phases[1].Rate() / (r.Phases[0].Rate() + r.Phases[2].Rate())
}

// Errors returns the errors and wrong results.
func (r *LoadResult) Errors() (all []string) {
	for _, p := range r.Phases {
		if p.Failures > 0 {
			all = append(all, fmt.Sprintf("%d tenants: %d errors and wrong results", p.Tenants, p.Failures))
		}
	}
	return all
}

// Exceeded returns the bounds that were exceeded.
func (r *LoadResult) Exceeded() (all []string) {
	if ratio := r.Ratio(); ratio < minRate {
		all = append(all, fmt.Sprintf("the rate is %.2f of that of one tenant, at least %.2f is required", ratio, minRate))
	}
	early, late := r.Phases[1].Memory()
	if float64(late.All) > float64(early.All)*(1+allowedGrowth)+mbSlack {
		all = append(all, fmt.Sprintf("memory has grown from %d MB to %d MB", early.All/mb, late.All/mb))
	}
	return all
}

// Print writes the result as text.
func (r *LoadResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%d callers, %d connections; %s\n\n", r.Config.Callers, max(r.Config.Tenants, r.Config.Callers), report.ThisMachine())
	rows := [][]string{{"tenants", "time", "operations", "failures", "rate", "p50", "p99", "daemon per op", "sandboxes per op",
		"daemon early", "late", "all processes early", "late"}}
	for _, p := range r.Phases {
		early, late := p.Memory()
		row := []string{fmt.Sprint(p.Tenants), fmt.Sprint(p.Duration), fmt.Sprint(len(p.Times)), fmt.Sprint(p.Failures),
			report.Number(p.Rate()) + " /s",
			fmt.Sprint(percentile(p.Times, 50).Round(time.Millisecond)), fmt.Sprint(percentile(p.Times, 99).Round(time.Millisecond))}
		for _, used := range []time.Duration{p.Daemon, p.Children} {
			row = append(row, fmt.Sprintf("%.2f ms", used.Seconds()*1000/float64(max(1, len(p.Times)))))
		}
		for _, n := range []int64{early.Daemon, late.Daemon, early.All, late.All} {
			row = append(row, fmt.Sprintf("%d MB", n/mb))
		}
		rows = append(rows, row)
	}
	report.PrintTable(w, rows)
	for _, p := range r.Phases {
		fmt.Fprintf(w, "\n%d tenants:", p.Tenants)
		for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
			fmt.Fprintf(w, " %s %d", kind, len(p.Kinds[kind]))
		}
		fmt.Fprintln(w)
		for _, e := range p.Examples {
			fmt.Fprintf(w, "  %.300s\n", e)
		}
		if p.Failures > 0 {
			fmt.Fprintf(w, "the daemon logged:\n%s", p.Logged)
		}
	}
	fmt.Fprintf(w, "\nrate of %d tenants relative to one: %.2f\n", r.Config.Tenants, r.Ratio())
}
