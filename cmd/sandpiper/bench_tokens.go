package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/bench/cost"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func (a *app) benchTokensCommand() *cobra.Command {
	var lists string
	var sample int
	c := &cobra.Command{
		Use:   "tokens",
		Short: "Measure what knowing your tools costs a model, in tokens",
		Long: `Tokens counts, over the servers of your configuration, what a model is told on every
turn if all their tools are listed directly, and in code mode, in each profile; and
what it pays to find one tool: the list of tools, a search, its answer, and the
definition of what it found. Servers that were never listed are asked first.

With --catalog it counts over the answers of servers to tools/list that are kept in
a file, or in a directory with a .json file for each server, and asks nobody.`,
		Example: `  sandpiper bench tokens
  sandpiper bench tokens --catalog ./lists --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample < 1 {
				return usagef("--sample is %d; it must be at least 1", sample)
			}
			return a.runBenchTokens(cmd.Context(), lists, sample)
		},
	}
	c.Flags().StringVar(&lists, "catalog", "", "answers to tools/list in `FILE` or directory, in place of the configured servers")
	c.Flags().IntVar(&sample, "sample", 100, "look for `N` of the tools")
	return c
}

func (a *app) runBenchTokens(ctx context.Context, lists string, sample int) error {
	if lists != "" {
		return a.measureLists(ctx, lists, sample)
	}
	return a.tools(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error { return a.measureTokens(ctx, d, sample) })
}

// measureLists measures over lists that were kept, in a directory that is removed
// afterwards.
func (a *app) measureLists(ctx context.Context, path string, sample int) (err error) {
	lists, err := cost.ReadLists(path)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sandpiper-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := lists.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return a.measureTokens(ctx, d, sample)
}

func (a *app) measureTokens(ctx context.Context, d *daemon.Daemon, sample int) error {
	r, err := cost.Run(ctx, cost.Config{Daemon: d, Sample: sample})
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(r)
	}
	r.Print(a.stdout)
	return nil
}
