package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/tenants"
)

// result is the result of any run of tenants.
type result interface {
	Print(io.Writer)
	Errors() []string
	Exceeded() []string
}

// runTenants measures the program as a service of many tenants. The argument load compares a thousand tenants
// with one on a saturated machine, and active those that call in turn on one that is not. noisy measures a
// tenant while another one exceeds its quotas, outputs one while another has large outputs, and idle the
// start and the memory with many tenants. It fails after an error, and if a bound was exceeded and the run
// is not short.
func runTenants(ctx context.Context, o *options, args []string) error {
	short := o.Bool("short", false, "a run of seconds with few tenants: errors and refusals fail it, times and rates do not")
	callers := o.Int("callers", 0, "concurrent callers of load (default 200)")
	count := o.Int("tenants", 0, "largest number of tenants of load and active (default 1,000) or idle (default 10,000)")
	minutes := o.Float64("minutes", 0, "duration of load (default 10), or of each phase of noisy (default 1)")
	_ = o.Parse(args)
	return o.withProgram(ctx, func(program string) error {
		load := tenants.LoadConfig{
			Config:  tenants.Config{Binary: program, Log: logLine},
			Tenants: *count, Callers: *callers, Duration: time.Duration(*minutes * float64(time.Minute)),
		}
		res, err := measureTenants(ctx, o.Arg(0), *short, load)
		if err != nil {
			return err
		}
		return judge(res, *short)
	})
}

// judge prints a result and its problems.
func judge(res result, short bool) error {
	res.Print(os.Stdout)
	failed := res.Errors()
	for _, e := range res.Exceeded() {
		if short {
			fmt.Println("not counted in a short run:", e)
		} else {
			failed = append(failed, e)
		}
	}
	for _, e := range failed {
		fmt.Println("FAILED:", e)
	}
	if len(failed) > 0 {
		return errFailed
	}
	fmt.Println("ok")
	return nil
}

func measureTenants(ctx context.Context, name string, short bool, load tenants.LoadConfig) (result, error) {
	switch name {
	case "load":
		if short {
			load.Tenants, load.Callers, load.Duration = 20, 10, 5*time.Second
		}
		return tenants.Load(ctx, load)
	case "active":
		active := tenants.ActiveConfig{Config: load.Config, Callers: load.Callers, Duration: load.Duration}
		if load.Tenants > 0 {
			active.Counts = []int{1, load.Tenants}
		}
		if short {
			active.Counts, active.Rounds, active.Duration = []int{1, 40}, 1, 3*time.Second
		}
		return tenants.Active(ctx, active)
	case "noisy":
		noisy := tenants.NoisyConfig{Config: load.Config, Duration: load.Duration}
		if short {
			noisy.Duration = 5 * time.Second
		}
		return tenants.Noisy(ctx, noisy)
	case "outputs":
		outputs := tenants.OutputsConfig{Config: load.Config, Duration: load.Duration, Callers: load.Callers}
		if short {
			outputs.Callers, outputs.Rounds, outputs.Duration = 4, 1, 3*time.Second
		}
		return tenants.Outputs(ctx, outputs)
	case "idle":
		idle := tenants.IdleConfig{Config: load.Config, Tenants: load.Tenants}
		if short {
			idle.Tenants, idle.Active = 300, 20
		}
		return tenants.Idle(ctx, idle)
	default:
		return nil, fmt.Errorf("unknown run %q; use load, active, noisy, outputs or idle", name)
	}
}
