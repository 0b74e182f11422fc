package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// IdleConfig of Idle.
type IdleConfig struct {
	Config
	Tenants int // that exist in the end; 0 means 10,000
	Active  int // that exist at first, and are the active ones; 0 means 100
}

// IdleResult compares two daemons with the same active tenants.
type IdleResult struct {
	Few, Many IdlePhase
	Created   time.Duration // what creating the idle tenants took
}

// IdlePhase is a daemon with active and idle tenants.
type IdlePhase struct {
	Tenants int             // that exist
	Active  int             // of them, those that execute code
	Starts  []time.Duration // from the start of the process to the answer to a first client
	Memory  int64           // of the daemon in bytes, without pages of files, after executions of the active tenants
}

// startCount is the number of measured starts.
const startCount = 5

// Idle creates tenants through the program and measures daemons with a hundred active
// tenants, without and with thousands of idle ones.
func Idle(ctx context.Context, cfg IdleConfig) (*IdleResult, error) {
	if cfg.Tenants == 0 {
		cfg.Tenants = 10_000
	}
	if cfg.Active == 0 {
		cfg.Active = 100
	}
	res := &IdleResult{}
	return res, cfg.withRig(ctx, func(r *rig.Rig) (err error) {
		if err := cfg.create(ctx, r, cfg.Active); err != nil {
			return err
		}
		if res.Few, err = cfg.measure(ctx, r, cfg.Active); err != nil {
			return err
		}
		began := time.Now()
		if err := cfg.create(ctx, r, cfg.Tenants); err != nil {
			return err
		}
		res.Created = time.Since(began)
		res.Many, err = cfg.measure(ctx, r, cfg.Tenants)
		return err
	})
}

// create makes the first request of each of n tenants, which creates it.
func (c IdleConfig) create(ctx context.Context, r *rig.Rig, n int) (err error) {
	if err := configure(r, n, nil); err != nil {
		return err
	}
	d, err := r.ServeHTTP(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return c.each(ctx, d, n, func(client *rig.Client, uid string) error {
		a, err := client.Call(ctx, "write_workspace_file", rig.Args{"filename": "hello.txt", "content": uid})
		if err == nil && a.Failed {
			err = errors.New(a.Text)
		}
		return err
	})
}

// each calls do with a connection of each of the first n tenants, eight at a time.
func (c IdleConfig) each(ctx context.Context, d *rig.Daemon, n int, do func(client *rig.Client, uid string) error) error {
	errs := make([]error, 8)
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				var client *rig.Client
				if client, errs[w] = d.ConnectAs(ctx, token(uid(i))); errs[w] == nil {
					errs[w] = errors.Join(do(client, uid(i)), client.Close())
				}
				if i%1000 == 999 {
					c.log("%d tenants", i+1)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// measure starts daemons in a data directory with n tenants, and lets the active ones
// execute code in the last of them.
func (c IdleConfig) measure(ctx context.Context, r *rig.Rig, n int) (p IdlePhase, err error) {
	p = IdlePhase{Tenants: n, Active: c.Active}
	if err := configure(r, c.Active, nil); err != nil {
		return p, err
	}
	var d *rig.Daemon
	for i := range startCount {
		began := time.Now()
		if d, err = r.ServeHTTP(ctx); err != nil {
			return p, err
		}
		p.Starts = append(p.Starts, time.Since(began))
		if i < startCount-1 {
			if err := d.Close(); err != nil {
				return p, err
			}
		}
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for range 3 {
		err := c.each(ctx, d, c.Active, func(client *rig.Client, uid string) error {
			x, err := client.Execute(ctx, "read_file('hello.txt')", nil)
			if err == nil && string(x.Result) != fmt.Sprintf("%q", uid) {
				err = fmt.Errorf("want %q, got %s %s", uid, x.Result, x.Error)
			}
			return err
		})
		if err != nil {
			return p, err
		}
	}
	p.Memory = settled(ctx, d)
	c.log("%d tenants: started after %v, %d MB", n, p.Starts, p.Memory/mb)
	return p, nil
}

// settled returns the smallest memory of a daemon in a few seconds without requests.
func settled(ctx context.Context, d *rig.Daemon) int64 {
	least := rig.OwnMemory(d.PID())
	for range 10 {
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
		least = min(least, rig.OwnMemory(d.PID()))
	}
	return least
}

// The bounds of Idle: the start, and the growth of the memory.
const (
	maxStart      = time.Second
	maxIdleGrowth = 0.10
)

// Errors returns none: Idle fails at the first one.
func (r *IdleResult) Errors() []string { return nil }

// Exceeded returns the bounds that were exceeded.
func (r *IdleResult) Exceeded() (all []string) {
	if s := slices.Max(r.Many.Starts); s > maxStart {
		all = append(all, fmt.Sprintf("a start with %d tenants took %v, at most %v is allowed", r.Many.Tenants, s.Round(time.Millisecond),
			maxStart))
	}
	if float64(r.Many.Memory) > float64(r.Few.Memory)*(1+maxIdleGrowth) {
		all = append(all, fmt.Sprintf("with %d tenants the daemon has %d MB, and with %d tenants %d MB", r.Many.Tenants, r.Many.Memory/mb,
			r.Few.Tenants, r.Few.Memory/mb))
	}
	return all
}

// Print writes the result as text.
func (r *IdleResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", report.ThisMachine())
	rows := [][]string{{"tenants", "active", "start, p50", "start, max", "own memory of the daemon"}}
	for _, p := range []IdlePhase{r.Few, r.Many} {
		rows = append(rows, []string{fmt.Sprint(p.Tenants), fmt.Sprint(p.Active),
			fmt.Sprint(percentile(p.Starts, 50).Round(time.Millisecond)),
			fmt.Sprint(slices.Max(p.Starts).Round(time.Millisecond)), fmt.Sprintf("%.1f MB", float64(p.Memory)/mb)})
	}
	report.PrintTable(w, rows)
	fmt.Fprintf(w, "\ncreating %d tenants took %v\n", r.Many.Tenants-r.Few.Tenants, r.Created.Round(time.Second))
}
