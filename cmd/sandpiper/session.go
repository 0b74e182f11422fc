package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

func sessionCommand(env *cli.Env) *cobra.Command {
	return cli.OfTenant(env, cli.Group("session", "List, show and resume sessions",
		&cobra.Command{
			Use: "list", Short: "List sessions, the latest first",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runSessionList(cmd.Context(), env) },
		},
		&cobra.Command{
			Use: "show ID", Short: "Print the log of a session",
			Long: `Show prints each task of a session with its code, output and result, and the latest
checkpoint. With --json it prints the content of /workspace/sessions/ID.json.`,
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runSessionShow(cmd.Context(), env, args[0]) },
		},
		resumeCommand(env),
	))
}

func runSessionList(ctx context.Context, env *cli.Env) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		list, err := home.Sessions.List(ctx)
		if err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "sessions", list)
		}
		env.PrintEmpty(len(list), "there are no sessions; start one with `sandpiper exec --session ID`")
		for _, s := range list {
			at := ""
			if s.Checkpoint != nil {
				at = "  at " + cli.VisibleName(string(s.Checkpoint.Step))
			}
			env.Printf("%-24s %s %10s%s\n", cli.VisibleName(s.ID), s.Ended.Format("2006-01-02 15:04:05"), cli.Count(s.Tasks, "task"), at)
		}
		return nil
	})
}

func runSessionShow(ctx context.Context, env *cli.Env, id string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		s, err := home.Sessions.Find(ctx, id)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(s)
		}
		printSession(env, s)
		return nil
	})
}

func printSession(env *cli.Env, s session.Session) {
	style := cli.StyleFor(env.Stdout)
	for _, t := range s.Tasks {
		env.Printf("%s\n", style.Dim(strings.TrimRight(fmt.Sprintf("# %s, %s %s", t.ID, t.Timestamp.Format("2006-01-02 15:04:05"),
			cli.VisibleName(t.Description)), " ")))
		env.Printf("%s\n", cli.Visible(strings.TrimRight(t.Code, "\n")))
		if t.Output != "" {
			env.Printf("%s\n", cli.Visible(t.Output))
		}
		env.Printf("%s\n\n", cli.Visible("= "+t.Result))
	}
	for _, f := range s.StateFiles {
		env.Printf("%s\n", style.Dim("# wrote "+cli.VisibleName(f)))
	}
	if c := s.Checkpoint; c != nil {
		env.Printf("%s\n", style.Dim(fmt.Sprintf("# checkpoint %s in %s: %s", cli.VisibleName(string(c.Step)), c.LastTask,
			cli.VisibleName(string(c.Context)))))
	}
}
