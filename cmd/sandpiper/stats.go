package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

func statsCommand(env *cli.Env) *cobra.Command {
	return cli.OfTenant(env, &cobra.Command{
		Use:   "stats",
		Short: "Print statistics of the workspace, the limits, the tools and the sandbox",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runStats(cmd.Context(), env) },
	})
}

func runStats(ctx context.Context, env *cli.Env) error {
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	home, err := cli.Acquire(ctx, env, d)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	st, err := d.Stats(ctx, home)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(st)
	}
	printStats(st, func(name, format string, args ...any) { env.Printf("%-12s %s\n", name, fmt.Sprintf(format, args...)) })
	return nil
}

func printStats(st mcpserver.Stats, row func(name, format string, args ...any)) {
	row("workspace", "%s, %s", cli.Count(st.Workspace.FileCount, "file"), cli.Count(st.Workspace.Bytes, "byte"))
	row("skills", "%d", st.Skills.Count)
	row("timeout", "%g s, at most %g s", st.Limits.DefaultTimeout, st.Limits.MaxTimeout)
	row("memory", "%d MB, at most %d MB", st.Limits.DefaultMemory, st.Limits.MaxMemory)
	if t := st.Tokens; t != nil && t.Definitions > 0 {
		categories := "1 category"
		if n := len(st.Registry.Categories); n != 1 {
			categories = fmt.Sprintf("%d categories", n)
		}
		row("tools", "%d in %s; listing them directly takes %d tokens", st.Registry.TotalTools, categories, t.Definitions)
	}
	if t := st.Tokens; t != nil && t.ToolCalls > 0 {
		row("calls", "%d by code; %d tokens of arguments and results stayed in the sandbox", t.ToolCalls, t.Inside)
	}
	if t := st.Tokens; t != nil && t.Definitions > 0 && t.Conversations > 0 {
		note := ""
		if t.Estimated {
			note = " (partly estimated)"
		}
		saved := "nothing saved yet"
		if t.Saved > 0 {
			saved = fmt.Sprintf("%.1f %% saved", 100*t.Saved)
		}
		row("tokens", "%d spent in %s, %d if tools were called directly: %s%s", t.Spent, cli.Count(t.Conversations, "conversation"),
			t.Direct, saved, note)
	}
	if m := st.Model; m != nil {
		cost := ""
		if m.Cost > 0 {
			cost = fmt.Sprintf(", cost %.4g", m.Cost)
		}
		row("model", "%s in %s: %d tokens sent, %d received%s", cli.Count(m.Requests, "request"), cli.Count(m.Hours, "hour"), m.Input,
			m.Output, cost)
	}
	verdict := "works"
	if !st.Sandbox.Working {
		verdict = "does not work; run sandpiper doctor for the reasons"
	}
	if st.Sandbox.Restricted {
		verdict += "; code is restricted"
	}
	row("sandbox", "%s %s", st.Sandbox.Backend, verdict)
}
