package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/bench"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
)

func benchCommand(env *cli.Env) *cobra.Command {
	var quick bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the performance on this machine",
		Long: `Bench measures this program as clients use it, with default settings and in
temporary directories. For comparison it also measures the same CPython without
Sandpiper: the ratios are more meaningful than the times. Leave the machine idle
during the measurement, which takes most of a minute. Slow results are not errors.

The column ratio is the speed relative to that interpreter (13x is 13 times as fast)
or the cost relative to it (0.9).`,
		Example: `  sandpiper bench
  sandpiper bench --quick
  sandpiper bench --json > today.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd.Context(), env, quick) },
	}
	c.Flags().BoolVar(&quick, "quick", false, "measure for a few seconds, less precisely")
	c.AddCommand(benchTokensCommand(env), rowsServerCommand())
	return c
}

// rowsServerCommand serves the upstream that bench measures large answers with.
func rowsServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.RowsServer,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return bench.ServeRows(cmd.Context()) },
	}
}

func runBench(ctx context.Context, env *cli.Env, quick bool) error {
	if env.ConfigFile != "" {
		return cli.Usagef("bench measures with default settings; omit --config")
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, err := bench.Run(ctx, bench.Config{Binary: binary, Version: env.Version, Quick: quick, Progress: benchProgress(env)})
	if hasTerminal(env) {
		fmt.Fprint(env.Stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(r)
	}
	r.Print(env.Stdout)
	return nil
}

// benchProgress returns a function that prints the current measurement on a terminal, or
// nil.
func benchProgress(env *cli.Env) func(name string) {
	if !hasTerminal(env) {
		return nil
	}
	return func(name string) { fmt.Fprintf(env.Stderr, "\r\x1b[Kmeasuring %s …", name) }
}

// hasTerminal reports whether stderr is a terminal.
func hasTerminal(env *cli.Env) bool { return cli.IsTerminal(env.Stderr) }
