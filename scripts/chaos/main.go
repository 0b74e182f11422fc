// Command chaos kills sandpiper at random moments and checks that nothing is lost, doubled or stuck:
//
//	go run ./scripts/chaos [-kinds write,plan] [-rounds N] [-daemons 1|2] [-seed N] [-binary FILE]
//
// It builds the program of this checkout unless -binary is set. It exits with 1 if it found a
// problem, which it prints with the arguments that repeat the round.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/chaos"
	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	if len(os.Args) == 3 && os.Args[1] == "upstream" {
		_ = chaos.Upstream(ctx, os.Args[2], "")
		return 0
	}
	cfg := chaos.Config{Patience: 30 * time.Second, Log: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	flag.IntVar(&cfg.Rounds, "rounds", 10, "rounds of each kind; a round kills once or twice")
	flag.IntVar(&cfg.Daemons, "daemons", 2, "1, or 2 for two daemons over one data directory in every second round")
	flag.IntVar(&cfg.Parallel, "parallel", 2, "rounds at a time")
	flag.Uint64Var(&cfg.Seed, "seed", 0, "seed of the random moments")
	flag.StringVar(&cfg.Binary, "binary", "", "the program to kill (default: a build of this checkout)")
	kinds := flag.String("kinds", strings.Join(chaos.Kinds(), ","), "kinds of work")
	flag.Parse()
	cfg.Kinds = strings.Split(*kinds, ",")
	result, err := runChaos(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	result.Print(os.Stdout)
	if len(result.Problems) > 0 {
		fmt.Println("FAILED")
		return 1
	}
	fmt.Println("ok: nothing is lost, doubled, stuck or left behind")
	return 0
}

func runChaos(ctx context.Context, cfg chaos.Config) (*chaos.Result, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cfg.Upstream = func(file string) []string { return []string{program, "upstream", file} }
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
