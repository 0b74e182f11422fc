package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// apart is how long a client that waits for each answer pauses: the program can
// make the next worker meanwhile, as it can between the calls of a model.
const apart = 20 * time.Millisecond

// warmCalls times `1+1` as a client sees it: a new sealed process each.
func (b *bench) warmCalls(ctx context.Context) ([]Row, error) {
	d, err := b.rig.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ours, bare, err := b.spaced(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	return []Row{
		Row{Name: "warm_p50", Measure: "warm 1+1 over MCP (stdio), p50", Value: median(ours), Unit: "ms", Aim: "0.7 ms, 12x faster"}.
			beside(median(bare), timesFaster),
		Row{Name: "warm_p99", Measure: "  p99", Value: percentile(ours, 99), Unit: "ms", Aim: "3 ms"}.
			beside(percentile(bare, 99), timesFaster),
	}, nil
}

// sessionCalls times `1+1` in one living interpreter, if this version has them.
func (b *bench) sessionCalls(ctx context.Context) ([]Row, error) {
	d, err := b.rig.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if has, err := d.Takes(ctx, "execute_code", "session_id"); err != nil || !has {
		return nil, err
	}
	ours, bare, err := b.spaced(ctx, d, rig.Args{"session_id": "bench"})
	if err != nil {
		return nil, err
	}
	return []Row{
		Row{Name: "session_p50", Measure: "the same in a session, p50", Value: median(ours), Unit: "ms", Aim: "0.3 ms"}.
			beside(median(bare), timesFaster),
		Row{Name: "session_p99", Measure: "  p99", Value: percentile(ours, 99), Unit: "ms"}.
			beside(percentile(bare, 99), timesFaster),
	}, nil
}

// httpCalls times the same calls in turn over stdio and over HTTP.
func (b *bench) httpCalls(ctx context.Context) ([]Row, error) {
	line, err := b.rig.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer line.Close()
	web, err := b.rig.ServeHTTP(ctx)
	if err != nil {
		return nil, err
	}
	defer web.Close()
	daemons := []*rig.Daemon{line, web}
	for _, d := range daemons {
		if err := settled(ctx, d, nil); err != nil {
			return nil, err
		}
	}
	took := make([][]time.Duration, len(daemons))
	n, budget := choose(b, 400, 40), choose(b, 20*time.Second, 2*time.Second)
	for began := time.Now(); len(took[1]) < n && time.Since(began) < budget; {
		for i, d := range daemons {
			one, err := onePlus(ctx, d.Client, len(took[i]), nil)
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], one)
			if err := pause(ctx, apart); err != nil {
				return nil, err
			}
		}
	}
	return []Row{{Name: "http_adds", Measure: "what HTTP adds to a warm call, p50", Value: median(took[1]) - median(took[0]), Unit: "ms", Aim: "0.3 ms"}}, nil
}

// spaced makes calls one after the other, apart, and starts a bare interpreter
// now and then between two of them.
func (b *bench) spaced(ctx context.Context, d *rig.Daemon, more rig.Args) (ours, bare []time.Duration, err error) {
	if err := settled(ctx, d, more); err != nil {
		return nil, nil, err
	}
	n, budget := choose(b, 500, 50), choose(b, 20*time.Second, 2*time.Second)
	for began := time.Now(); len(ours) < n && time.Since(began) < budget; {
		took, err := onePlus(ctx, d.Client, len(ours), more)
		if err != nil {
			return nil, nil, err
		}
		ours = append(ours, took)
		if len(ours)%5 == 0 {
			took, err := b.timeBare(ctx, "print(1+1)")
			if err != nil {
				return nil, nil, err
			}
			bare = append(bare, took)
		}
		if err := pause(ctx, apart); err != nil {
			return nil, nil, err
		}
	}
	return ours, bare, nil
}

// settled makes a few calls that are not counted, so that the program has a
// stock of workers and its own code in memory.
func settled(ctx context.Context, d *rig.Daemon, more rig.Args) error {
	for i := range 10 {
		if _, err := onePlus(ctx, d.Client, i, more); err != nil {
			return err
		}
		if err := pause(ctx, 2*apart); err != nil {
			return err
		}
	}
	return nil
}

// onePlus adds 1 to n in the sandbox, times that and checks it.
func onePlus(ctx context.Context, c *rig.Client, n int, more rig.Args) (time.Duration, error) {
	code := strconv.Itoa(n) + "+1"
	began := time.Now()
	x, err := c.Execute(ctx, code, more)
	took := time.Since(began)
	if err == nil && string(x.Result) != strconv.Itoa(n+1) {
		err = fmt.Errorf("%s is %s (%s), it was answered", code, x.Result, x.Error)
	}
	return took, err
}

// saturated counts how many executions go through when callers do not pause.
func (b *bench) saturated(ctx context.Context) (rows []Row, err error) {
	d, err := b.rig.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := settled(ctx, d, nil); err != nil {
		return nil, err
	}
	cores := runtime.NumCPU()
	for _, callers := range []int{1, 2, 8, 32} {
		ours, err := rate(ctx, callers, choose(b, 2*time.Second, 300*time.Millisecond), func(n int) error {
			_, err := onePlus(ctx, d.Client, n, nil)
			return err
		})
		if err != nil {
			return nil, err
		}
		bare, err := rate(ctx, callers, choose(b, time.Second, 200*time.Millisecond), func(int) error {
			_, err := b.timeBare(ctx, "print(1+1)")
			return err
		})
		if err != nil {
			return nil, err
		}
		row := Row{Name: fmt.Sprintf("saturated_%d", callers), Value: ours, Unit: "/s", Measure: fmt.Sprintf("executions, callers without pause: %d", callers)}
		if callers >= cores {
			row.Aim = fmt.Sprintf("%d/s on %d processors", 350*cores, cores)
		}
		rows = append(rows, row.beside(bare, timesFaster))
	}
	return rows, nil
}

// rate calls do from that many callers for a while, and returns how often a
// second. Each call has a number of its own.
func rate(ctx context.Context, callers int, d time.Duration, do func(n int) error) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var number, ended atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				if err := do(int(number.Add(1))); err != nil {
					cancel(err)
					return
				}
				ended.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(ended.Load()) / time.Since(began).Seconds(), context.Cause(ctx)
}
