// Command tenants measures sandpiper as a service of many tenants:
//
//	go run ./scripts/tenants [flags] load|active|noisy|outputs|idle
//
// load compares a thousand tenants with one on a saturated machine, and active those that
// call in turn on one that is not. noisy measures a tenant while another one exceeds its
// quotas, outputs one while another has large outputs, and idle the start and the memory
// with many tenants. It builds the program of this checkout unless -binary is set. It exits
// with 1 after an error, and if a bound was exceeded and the run is not short.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
	"github.com/sandpiper-mcp/sandpiper/bench/tenants"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

// result is the result of any run.
type result interface {
	Print(io.Writer)
	Errors() []string
	Exceeded() []string
}

func run(ctx context.Context) int {
	binary := flag.String("binary", "", "the program to run (default: a build of this checkout)")
	short := flag.Bool("short", false, "a run of seconds with few tenants: errors and refusals fail it, times and rates do not")
	callers := flag.Int("callers", 0, "concurrent callers of load (default 200)")
	count := flag.Int("tenants", 0, "largest number of tenants of load and active (default 1,000) or idle (default 10,000)")
	minutes := flag.Float64("minutes", 0, "duration of load (default 10), or of each phase of noisy (default 1)")
	flag.Parse()
	cfg := tenants.Config{Binary: *binary, Log: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	res, err := measure(ctx, flag.Arg(0), cfg, *short, tenants.LoadConfig{Config: cfg, Tenants: *count, Callers: *callers, Duration: time.Duration(*minutes * float64(time.Minute))})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	res.Print(os.Stdout)
	failed := res.Errors()
	for _, e := range res.Exceeded() {
		if *short {
			fmt.Println("not counted in a short run:", e)
		} else {
			failed = append(failed, e)
		}
	}
	for _, e := range failed {
		fmt.Println("FAILED:", e)
	}
	if len(failed) > 0 {
		return 1
	}
	fmt.Println("ok")
	return 0
}

func measure(ctx context.Context, name string, cfg tenants.Config, short bool, load tenants.LoadConfig) (result, error) {
	if cfg.Binary == "" {
		dir, err := os.MkdirTemp("", "sandpiper-build-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if cfg.Binary, err = rig.Build(ctx, dir); err != nil {
			return nil, err
		}
		load.Config = cfg
	}
	switch name {
	case "load":
		if short {
			load.Tenants, load.Callers, load.Duration = 20, 10, 5*time.Second
		}
		return tenants.Load(ctx, load)
	case "active":
		active := tenants.ActiveConfig{Config: cfg, Callers: load.Callers, Duration: load.Duration}
		if load.Tenants > 0 {
			active.Counts = []int{1, load.Tenants}
		}
		if short {
			active.Counts, active.Rounds, active.Duration = []int{1, 40}, 1, 3*time.Second
		}
		return tenants.Active(ctx, active)
	case "noisy":
		noisy := tenants.NoisyConfig{Config: cfg, Duration: load.Duration}
		if short {
			noisy.Duration = 5 * time.Second
		}
		return tenants.Noisy(ctx, noisy)
	case "outputs":
		outputs := tenants.OutputsConfig{Config: cfg, Duration: load.Duration, Callers: load.Callers}
		if short {
			outputs.Callers, outputs.Rounds, outputs.Duration = 4, 1, 3*time.Second
		}
		return tenants.Outputs(ctx, outputs)
	case "idle":
		idle := tenants.IdleConfig{Config: cfg, Tenants: load.Tenants}
		if short {
			idle.Tenants, idle.Active = 300, 20
		}
		return tenants.Idle(ctx, idle)
	default:
		return nil, fmt.Errorf("unknown run %q; use load, active, noisy, outputs or idle", name)
	}
}
