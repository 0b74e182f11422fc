// Command chaos kills sandpiper repeatedly under load and checks that nothing that it
// acknowledged is lost:
//
//	go run ./scripts/chaos [-rounds N] [-clients N] [-seed N] [-binary FILE]
//
// It builds the program of this checkout unless -binary is set. It exits with 1 if
// anything was lost, half-written or left behind.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/bench/chaos"
	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	cfg := chaos.Config{Log: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	flag.IntVar(&cfg.Rounds, "rounds", 100, "number of daemons to kill")
	flag.IntVar(&cfg.Clients, "clients", 3, "number of concurrent clients")
	flag.Uint64Var(&cfg.Seed, "seed", 0, "seed of the random moments")
	flag.StringVar(&cfg.Binary, "binary", "", "the program to kill (default: a build of this checkout)")
	flag.Parse()
	result, err := runChaos(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	result.Print(os.Stdout)
	if result.Failed() {
		fmt.Println("FAILED")
		return 1
	}
	fmt.Println("ok: everything acknowledged is present and nothing is left behind")
	return 0
}

func runChaos(ctx context.Context, cfg chaos.Config) (*chaos.Result, error) {
	if cfg.Binary == "" {
		dir, err := os.MkdirTemp("", "sandpiper-build-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if cfg.Binary, err = rig.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	return chaos.Run(ctx, cfg)
}
