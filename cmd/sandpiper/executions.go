package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func (a *app) executionsCommand() *cobra.Command {
	return a.ofTenant(group("executions", "Find executions that were cut short, and go on with them",
		&cobra.Command{
			Use: "list", Short: "List executions that were cut short, the latest first",
			Long: `List shows executions that called something which may have changed something, or
asked the person, and did not come to their end: since their process was killed or
ended, a limit ended them, or nobody waited for them any more. They are kept for
seven days. Plans that wait to be approved are there too, for 24 hours.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runExecutionsList(cmd.Context()) },
		},
		&cobra.Command{
			Use: "resume ID", Short: "Run an execution again that was cut short, or carry out a plan",
			Long: `Resume runs the code again, from its first line and under its id. What it was
answered before it is answered again from the record: no call is repeated, and
nobody is asked twice. A call of which it is not known whether it happened fails
with an error that says so. With the id of a plan (exec --dry-run prints it) it asks
you to approve the plan, and makes its calls.`,
			Example: "  sandpiper executions list\n  sandpiper executions resume exec_e25rjubtohqyskjqfnsornzl3p",
			Args:    cobra.ExactArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return a.runExecutionsResume(cmd.Context(), args[0]) },
		},
	))
}

// reached is how far it came: how much it was answered, and which tools it called.
func reached(c execution.Resumable) string {
	if len(c.Tools) == 0 {
		return ""
	}
	unknown := ""
	if c.Unknown > 0 {
		unknown = fmt.Sprintf(", %d unknown", c.Unknown)
	}
	return fmt.Sprintf("; %d answered%s: %s", c.Answered, unknown, visibleName(strings.Join(c.Tools, " ")))
}

func (a *app) runExecutionsList(ctx context.Context) error {
	return a.homeOf(ctx, func(d *daemon.Daemon, home *home.Home) error {
		all, err := d.Runner.Resumable(ctx, home, "")
		if err != nil {
			return err
		}
		if a.json {
			return a.writeJSON(map[string]any{"count": len(all), "executions": all})
		}
		for _, c := range all {
			a.printf("%s  %s  %s%s\n", c.ID, c.Changed.Local().Format("2006-01-02 15:04:05"), c.Why, reached(c))
		}
		return nil
	})
}

func (a *app) runExecutionsResume(ctx context.Context, id string) error {
	return a.ready(ctx, a.watch(), func(d *daemon.Daemon, home *home.Home) error {
		x, err := d.Runner.Resume(ctx, home, id)
		if err != nil {
			return err
		}
		r, err := a.follow(ctx, d, home, x)
		if err != nil {
			return err
		}
		return a.finish(ctx, r)
	})
}
