package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func executionsCommand(env *cli.Env) *cobra.Command {
	var limits execution.ResumeLimits
	resume := &cobra.Command{
		Use: "resume ID", Short: "Resume an interrupted execution, or apply a plan",
		Long: `Resume replays the code from its first line with the same id. Completed calls and
answered questions return their recorded results: no call is made twice, and no
question is asked twice. It asks what happened to a call that was interrupted; without a
terminal, sandpiper executions answer tells it. Code that had ended at a limit of time or
memory gets the largest one that is allowed. With the id of a plan (printed by exec
--dry-run), it asks you to approve the plan and makes its calls. The result of an
execution that was resumed is kept, and returned again, for a day.`,
		Example: "  sandpiper executions list\n  sandpiper executions resume exec_e25rjubtohqyskjqfnsornzl3p --timeout 60s",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExecutionsResume(cmd.Context(), env, args[0], limits)
		},
	}
	cli.DurationFlag(resume.Flags(), &limits.Timeout, "timeout", 0, "stop the code after this time")
	resume.Flags().IntVar(&limits.MemoryMB, "memory", 0, "memory in `MB` that the code may use")
	return cli.OfTenant(env, cli.Group("executions", "Run code in the background; list and resume executions",
		executionsRunCommand(env), executionsWatchCommand(env), executionsSignalCommand(env), executionsAnswerCommand(env),
		executionsCancelCommand(env),
		executionsListCommand(env),
		resume,
	))
}

func executionsListCommand(env *cli.Env) *cobra.Command {
	var background bool
	c := &cobra.Command{
		Use: "list", Short: "List interrupted executions, the latest first",
		Long: `List shows executions that made calls with possible side effects or asked a question,
and did not finish: their process was killed or exited, they reached a limit, or the
client disconnected. They are kept for seven days. Plans that need approval are
listed for 24 hours. With --background it shows background executions instead.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if background {
				return runExecutionsListBackground(cmd.Context(), env)
			}
			return runExecutionsList(cmd.Context(), env)
		},
	}
	c.Flags().BoolVar(&background, "background", false, "list background executions")
	return c
}

// progressText describes the recorded progress of an execution: the number of completed
// calls and the tools.
func progressText(c unfinished.Execution) string {
	if len(c.Tools) == 0 {
		return ""
	}
	unknown := ""
	if c.Unknown > 0 {
		unknown = fmt.Sprintf(", %d unknown", c.Unknown)
	}
	return fmt.Sprintf("; %d answered%s: %s", c.Answered, unknown, cli.VisibleName(strings.Join(c.Tools, " ")))
}

func runExecutionsList(ctx context.Context, env *cli.Env) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		all, err := unfinished.List(ctx, d.Runner, home, "")
		if err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "executions", all)
		}
		env.PrintEmpty(len(all), "no execution can be resumed; `sandpiper executions list --background` lists background executions")
		for _, c := range all {
			env.Printf("%s  %s  %s%s\n", c.ID, c.Changed.Local().Format("2006-01-02 15:04:05"), c.Why, progressText(c))
		}
		return nil
	})
}

func runExecutionsResume(ctx context.Context, env *cli.Env, id string, limits execution.ResumeLimits) error {
	return cli.WithWarmHome(ctx, env, result.Printer(env), func(d *daemon.Daemon, home *home.Home) error {
		x, err := d.Runner.Resume(ctx, home, id, limits)
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.NotFound && f.Hint == "" {
			err = f.WithHint("`sandpiper executions list` lists those that can be resumed; for an execution of a session use `sandpiper " +
				"session resume`")
		}
		if err != nil {
			return err
		}
		r, err := result.Wait(ctx, env, d, home, x)
		if err != nil {
			return err
		}
		return result.Print(ctx, env, r)
	})
}
