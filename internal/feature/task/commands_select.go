package task

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func selectCommand(env *cli.Env) *cobra.Command {
	var q task.Query
	var uid string
	c := &cobra.Command{
		Use: "select TASK", Short: "Select the few tools that a task needs",
		Long: `Select prints the tools, handwritten functions and skills that match a task best, with
their scores relative to the best one, the share of all that they are, and the tokens of
their definitions. --tenant
selects among the tools that a tenant may use.`,
		Example: "  sandpiper tools select 'Calculate 5 + 3'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Task = strings.Join(args, " ")
			if err := q.Set(&q.Threshold, &q.TopK); err != nil {
				return err
			}
			return runSelect(cmd.Context(), env, q, uid)
		},
	}
	c.Flags().Float64Var(&q.Threshold, "threshold", task.DefaultThreshold, "least `SCORE`, up to 1")
	c.Flags().IntVar(&q.TopK, "top-k", task.DefaultTopK, "at most `N` tools")
	c.Flags().Var((*cli.UIDFlag)(&uid), "tenant", "select among the tools that tenant `ID` may use")
	return c
}

func runSelect(ctx context.Context, env *cli.Env, q task.Query, uid string) error {
	return cli.WithTools(ctx, env, func(d *daemon.Daemon, now *catalog.Snapshot) error {
		id, find := tenant.Local, d.Find
		if uid != "" {
			var err error
			if id, err = tenant.ParseStored(uid); err == nil {
				err = d.CheckTenant(id)
			}
			if err != nil {
				return err
			}
			viewer := catalog.Viewer{Tenant: id}
			now, find = d.Servers.Catalog.For(viewer), find.For(viewer)
		}
		home, err := d.Tenants.Acquire(ctx, id)
		if err != nil {
			return err
		}
		defer home.Release(context.WithoutCancel(ctx))
		own, err := find.WithSkills(home.Skills).Functions(ctx)
		if err != nil {
			return err
		}
		s, err := task.Select(ctx, now, own, q)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(s)
		}
		for _, t := range s.Tools {
			env.Printf("%-32s %.2f\n", cli.VisibleName(t.Name), t.Score)
		}
		env.Printf("%d of %d tools, %.0f %%; %d of %d tokens\n", len(s.Tools), s.Available, 100*s.Share, s.Tokens, s.AllTokens)
		return nil
	})
}
