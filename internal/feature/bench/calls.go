package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// callPause is the pause between calls of a sequential client. The program can
// prepare the next worker in it, as between the calls of a model.
const callPause = 20 * time.Millisecond

// warmCalls measures the latency of `1+1`, each in a new sandboxed process.
func (b *bench) warmCalls(ctx context.Context, d *rig.Daemon) ([]Row, error) {
	ours, bare, err := b.spacedCalls(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	return []Row{
		Row{Name: "warm_p50", Measure: "warm 1+1 over MCP (stdio), p50", Value: median(ours), Unit: "ms", Aim: "0.7 ms, 12x faster"}.
			withBare(median(bare), timesFaster),
		Row{Name: "warm_p99", Measure: "  p99", Value: percentile(ours, 99), Unit: "ms", Aim: "3 ms"}.
			withBare(percentile(bare, 99), timesFaster),
	}, nil
}

// sessionCalls measures the latency of `1+1` in a live interpreter.
func (b *bench) sessionCalls(ctx context.Context, d *rig.Daemon) ([]Row, error) {
	ours, bare, err := b.spacedCalls(ctx, d, rig.Args{"session_id": "bench"})
	if err != nil {
		return nil, err
	}
	return []Row{
		Row{Name: "session_p50", Measure: "the same in a session, p50", Value: median(ours), Unit: "ms", Aim: "0.3 ms"}.
			withBare(median(bare), timesFaster),
		Row{Name: "session_p99", Measure: "  p99", Value: percentile(ours, 99), Unit: "ms"}.
			withBare(percentile(bare, 99), timesFaster),
	}, nil
}

// httpCalls measures the same calls alternately over stdio and HTTP.
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
		if err := warmUp(ctx, d, nil); err != nil {
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
			if err := pause(ctx, callPause); err != nil {
				return nil, err
			}
		}
	}
	return []Row{{Name: "http_adds", Measure: "overhead of HTTP for a warm call, p50", Value: median(took[1]) - median(took[0]), Unit: "ms",
		Aim: "0.3 ms"}}, nil
}

// spacedCalls makes sequential calls with pauses. After every fifth call it starts a
// bare interpreter.
func (b *bench) spacedCalls(ctx context.Context, d *rig.Daemon, more rig.Args) (ours, bare []time.Duration, err error) {
	if err := warmUp(ctx, d, more); err != nil {
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
		if err := pause(ctx, callPause); err != nil {
			return nil, nil, err
		}
	}
	return ours, bare, nil
}

// warmUp makes a few calls that are not measured, so that the program has idle workers
// and its code is in memory.
func warmUp(ctx context.Context, d *rig.Daemon, more rig.Args) error {
	for i := range 10 {
		if _, err := onePlus(ctx, d.Client, i, more); err != nil {
			return err
		}
		if err := pause(ctx, 2*callPause); err != nil {
			return err
		}
	}
	return nil
}

// onePlus measures the execution of n+1 and checks its result.
func onePlus(ctx context.Context, c *rig.Client, n int, more rig.Args) (time.Duration, error) {
	code := strconv.Itoa(n) + "+1"
	began := time.Now()
	x, err := c.Execute(ctx, code, more)
	took := time.Since(began)
	if err == nil && string(x.Result) != strconv.Itoa(n+1) {
		err = fmt.Errorf("the result of %s is %s (%s)", code, x.Result, x.Error)
	}
	return took, err
}

// saturated measures the throughput of callers without pauses.
func (b *bench) saturated(ctx context.Context, d *rig.Daemon) (rows []Row, err error) {
	if err := warmUp(ctx, d, nil); err != nil {
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
		row := Row{Name: fmt.Sprintf("saturated_%d", callers), Value: ours, Unit: "/s",
			Measure: fmt.Sprintf("executions, callers without pause: %d", callers)}
		if callers >= cores {
			row.Aim = fmt.Sprintf("%d/s on %d processors", 350*cores, cores)
		}
		rows = append(rows, row.withBare(bare, timesFaster))
	}
	return rows, nil
}

// rate calls do concurrently from callers goroutines for d, and returns the calls per
// second. Each call gets a distinct number.
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
