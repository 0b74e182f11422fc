package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/bench"
)

func (a *app) benchCommand() *cobra.Command {
	var quick bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this is, on this machine",
		Long: `Bench measures this program as clients use it, with the settings it comes with and
in directories of its own that are removed afterwards. A bare interpreter of the
same CPython runs beside it: read the ratios, and leave the machine alone
meanwhile. It takes most of a minute, and never fails because something is slow.

ratio is how many times faster than the bare interpreter (13x), or how many times
what that takes (0.9).`,
		Example: `  sandpiper bench
  sandpiper bench --quick
  sandpiper bench --json > today.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBench(cmd.Context(), quick) },
	}
	c.Flags().BoolVar(&quick, "quick", false, "take a few seconds, and be less exact")
	c.AddCommand(a.benchTokensCommand())
	return c
}

func (a *app) runBench(ctx context.Context, quick bool) error {
	if a.config != "" {
		return usagef("bench measures with the settings that the program comes with; it takes no --config")
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, err := bench.Run(ctx, bench.Config{Binary: binary, Version: buildVersion(), Quick: quick, Progress: a.measuring()})
	if a.isWatched() {
		fmt.Fprint(a.stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(r)
	}
	r.Print(a.stdout)
	return nil
}

// measuring shows what is being measured, on a terminal.
func (a *app) measuring() func(what string) {
	if !a.isWatched() {
		return nil
	}
	return func(what string) { fmt.Fprintf(a.stderr, "\r\x1b[Kmeasuring %s …", what) }
}

// isWatched reports whether a person sees what is written to stderr.
func (a *app) isWatched() bool { return isTerminal(a.stderr) }
