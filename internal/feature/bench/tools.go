package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// upstreamCallCount is the number of tool calls, and upstreamConcurrency the number of
// concurrent calls of one server, which is the default of a daemon.
const (
	upstreamCallCount   = 1000
	upstreamConcurrency = 8
)

// upstreamCallers is the number of callers whose executions call tools at the same time.
const upstreamCallers = 16

const callThreeTools = `from servers.upstream import get_version
for _ in range(3):
    get_version()
result = 3
`

const callTools = `import time
from servers.upstream import get_version
get_version()
began = time.perf_counter()
versions = parallel(*[get_version for _ in range(%d)])
result = [time.perf_counter() - began, len(versions)]
`

// upstreamCalls measures many calls of an upstream tool from one execution, and the
// same calls by a plain client; then executions of many callers that call tools.
// The server is another daemon of this program, and each call is recorded.
func (b *bench) upstreamCalls(ctx context.Context) ([]Row, error) {
	n := choose(b, upstreamCallCount, 200)
	config, err := b.serverConfig("upstream", b.rig.Upstream())
	if err != nil {
		return nil, err
	}
	direct, err := b.rig.Serve(ctx, "--profile", "full")
	if err != nil {
		return nil, err
	}
	defer direct.Close()
	d, err := b.rig.Serve(ctx, "--config", config)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ours, bare, err := inTurns(choose(b, 7, 3),
		func() (time.Duration, error) { return fromCode(ctx, d, n) },
		func() (time.Duration, error) { return fromClient(ctx, direct.Client, n) })
	if err != nil {
		return nil, err
	}
	many, err := rate(ctx, upstreamCallers, choose(b, 2*time.Second, 500*time.Millisecond), func(int) error {
		x, err := d.Execute(ctx, callThreeTools, nil)
		if err == nil && string(x.Result) != "3" {
			err = fmt.Errorf("three calls of a tool returned %.200s (%s)", x.Result, x.Error)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return []Row{Row{Name: "upstream_calls", Measure: fmt.Sprintf("%d calls of a tool; bare: by a plain client", n), Value: median(ours),
		Unit: "ms", Aim: "1.3 of bare"}.
		withBare(median(bare), ofBare),
		{Name: "upstream_callers", Measure: fmt.Sprintf("executions with 3 calls of a tool, %d callers", upstreamCallers), Value: many,
			Unit: "/s", Aim: "110/s"}}, nil
}

// serverConfig writes a configuration with one server.
func (b *bench) serverConfig(name string, server any) (string, error) {
	return rig.WriteConfig(filepath.Join(b.rig.Dir(), name), rig.Args{"servers": rig.Args{name: server}})
}

func fromCode(ctx context.Context, d *rig.Daemon, n int) (time.Duration, error) {
	x, err := d.Execute(ctx, fmt.Sprintf(callTools, n), nil)
	if err != nil {
		return 0, err
	}
	var times [2]float64
	if err := json.Unmarshal(x.Result, &times); err != nil || int(times[1]) != n {
		return 0, fmt.Errorf("%d calls of a tool returned %.200s (%s)", n, x.Result, x.Error)
	}
	return time.Duration(times[0] * float64(time.Second)), nil
}

func fromClient(ctx context.Context, c *rig.Client, n int) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	began := time.Now()
	for range upstreamConcurrency {
		all.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if a, err := c.Call(ctx, "get_version", rig.Args{}); err != nil || a.Failed {
					cancel(fmt.Errorf("get_version returned %+v, %w", a, err))
				}
			}
		})
	}
	all.Wait()
	return time.Since(began), context.Cause(ctx)
}
