package bench

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/cost"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func tokensCommand(env *cli.Env) *cobra.Command {
	var lists string
	var sample int
	c := &cobra.Command{
		Use:   "tokens",
		Short: "Measure the cost of tool definitions in tokens",
		Long: `Tokens counts, for the servers of your configuration, the input to a model on each
request if all their tools are listed directly, and in code mode with each profile; and
the cost of finding one tool: the list of tools, a search, its result, and the
definition of the tool. Servers that were never listed are listed first.

With --catalog it uses stored tools/list results instead, from a file or from a
directory with a .json file for each server, and starts no server.`,
		Example: `  sandpiper bench tokens
  sandpiper bench tokens --catalog ./lists --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample < 1 {
				return cli.Usagef("--sample is %d; it must be at least 1", sample)
			}
			return runTokens(cmd.Context(), env, lists, sample)
		},
	}
	c.Flags().StringVar(&lists, "catalog", "", "tools/list results in `FILE` or directory, instead of the configured servers")
	c.Flags().IntVar(&sample, "sample", 100, "look for `N` of the tools")
	return c
}

func runTokens(ctx context.Context, env *cli.Env, lists string, sample int) error {
	if lists != "" {
		return measureCatalog(ctx, env, lists, sample)
	}
	return cli.WithTools(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error { return measureTokens(ctx, env, d, sample) })
}

// measureCatalog measures with saved tools/list results, in a temporary
// directory.
func measureCatalog(ctx context.Context, env *cli.Env, path string, sample int) (err error) {
	lists, err := cost.ReadLists(path)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sandpiper-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := lists.Open(ctx, dir, env.Features)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return measureTokens(ctx, env, d, sample)
}

func measureTokens(ctx context.Context, env *cli.Env, d *daemon.Daemon, sample int) error {
	r, err := cost.Run(ctx, cost.Config{Daemon: d, Sample: sample})
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(r)
	}
	r.Print(env.Stdout)
	return nil
}
