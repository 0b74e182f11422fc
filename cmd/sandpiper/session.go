package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

func sessionCommand(env *app) *cobra.Command {
	return ofTenant(env, group("session", "List, show and resume sessions",
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

func runSessionList(ctx context.Context, env *app) error {
	return withHome(ctx, env, func(home *home.Home) error {
		list, err := home.Sessions.List(ctx)
		if err != nil {
			return err
		}
		if env.json {
			return writeList(env, "sessions", list)
		}
		env.printEmpty(len(list), "there are no sessions; start one with `sandpiper exec --session ID`")
		for _, s := range list {
			at := ""
			if s.Checkpoint != nil {
				at = "  at " + visibleName(string(s.Checkpoint.Step))
			}
			env.printf("%-24s %s %10s%s\n", visibleName(s.ID), s.Ended.Format("2006-01-02 15:04:05"), count(s.Tasks, "task"), at)
		}
		return nil
	})
}

func runSessionShow(ctx context.Context, env *app, id string) error {
	return withHome(ctx, env, func(home *home.Home) error {
		s, err := home.Sessions.Find(ctx, id)
		if err != nil {
			return err
		}
		if env.json {
			return env.writeJSON(s)
		}
		printSession(env, s)
		return nil
	})
}

func printSession(env *app, s session.Session) {
	style := styleFor(env.stdout)
	for _, t := range s.Tasks {
		env.printf("%s\n", style.dim(strings.TrimRight(fmt.Sprintf("# %s, %s %s", t.ID, t.Timestamp.Format("2006-01-02 15:04:05"), visibleName(t.Description)), " ")))
		env.printf("%s\n", visible(strings.TrimRight(t.Code, "\n")))
		if t.Output != "" {
			env.printf("%s\n", visible(t.Output))
		}
		env.printf("%s\n\n", visible("= "+t.Result))
	}
	for _, f := range s.StateFiles {
		env.printf("%s\n", style.dim("# wrote "+visibleName(f)))
	}
	if c := s.Checkpoint; c != nil {
		env.printf("%s\n", style.dim(fmt.Sprintf("# checkpoint %s in %s: %s", visibleName(string(c.Step)), c.LastTask, visibleName(string(c.Context)))))
	}
}
