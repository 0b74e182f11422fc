package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/chaos"
)

// runChaos kills the program at random moments and checks that nothing is lost, doubled or stuck. It prints
// problems with the arguments that repeat the round. "chaos upstream FILE" is the upstream server of the rounds.
func runChaos(ctx context.Context, o *options, args []string) error {
	if len(args) == 2 && args[0] == "upstream" {
		_ = chaos.Upstream(ctx, args[1], "")
		return nil
	}
	cfg := chaos.Config{Patience: 30 * time.Second, Log: logLine}
	o.IntVar(&cfg.Rounds, "rounds", 10, "rounds of each kind; a round kills once or twice")
	o.IntVar(&cfg.Daemons, "daemons", 2, "1, or 2 for two daemons over one data directory in every second round")
	o.IntVar(&cfg.Parallel, "parallel", 2, "rounds at a time")
	o.Uint64Var(&cfg.Seed, "seed", 0, "seed of the random moments")
	kinds := o.String("kinds", strings.Join(chaos.Kinds(), ","), "kinds of work")
	_ = o.Parse(args)
	cfg.Kinds = strings.Split(*kinds, ",")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Upstream = func(file string) []string { return []string{self, "chaos", "upstream", file} }
	return o.withProgram(ctx, func(program string) error {
		cfg.Binary = program
		result, err := chaos.Run(ctx, cfg)
		if err != nil {
			return err
		}
		result.Print(os.Stdout)
		if len(result.Problems) > 0 {
			return errFailed
		}
		fmt.Println("ok: nothing is lost, doubled, stuck or left behind")
		return nil
	})
}
