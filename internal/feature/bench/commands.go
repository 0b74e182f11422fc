package bench

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
)

// commands returns the command bench.
func commands(env *cli.Env) []*cobra.Command {
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
	c.AddCommand(tokensCommand(env), &cobra.Command{
		Use:    rowsServer,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return serveRows(cmd.Context()) },
	})
	return []*cobra.Command{c}
}

func runBench(ctx context.Context, env *cli.Env, quick bool) error {
	if env.ConfigFile != "" {
		return cli.Usagef("bench measures with default settings; omit --config")
	}
	cfg := Config{Version: env.Version, Quick: quick}
	terminal := cli.IsTerminal(env.Stderr)
	if terminal {
		cfg.Progress = func(what string) { fmt.Fprintf(env.Stderr, "\r\x1b[Kmeasuring %s …", what) }
	}
	r, err := Run(ctx, cfg)
	if terminal {
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
