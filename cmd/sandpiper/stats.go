package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/tenant"
)

func (a *app) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Print what is in the workspace, the limits and the sandbox",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.runStats(cmd.Context()) },
	}
}

func (a *app) runStats(ctx context.Context) error {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	home, err := d.Tenants.Acquire(ctx, tenant.Local)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	st, err := d.Stats(ctx, home)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(st)
	}
	row := func(name, format string, args ...any) { a.printf("%-12s %s\n", name, fmt.Sprintf(format, args...)) }
	row("workspace", "%d files, %d bytes", st.Workspace.FileCount, st.Workspace.Bytes)
	row("skills", "%d", st.Skills.Count)
	row("timeout", "%g s, at most %g s", st.Limits.DefaultTimeout, st.Limits.MaxTimeout)
	row("memory", "%d MB, at most %d MB", st.Limits.DefaultMemory, st.Limits.MaxMemory)
	verdict := "works"
	if !st.Sandbox.Working {
		verdict = "does not work; sandpiper doctor says why"
	}
	if st.Sandbox.Restricted {
		verdict += "; code is restricted"
	}
	row("sandbox", "%s %s", st.Sandbox.Backend, verdict)
	return nil
}
