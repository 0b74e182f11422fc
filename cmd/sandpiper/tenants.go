package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func tenantCommand(env *cli.Env) *cobra.Command {
	return cli.Group("tenant", "List, create, suspend, export and delete tenants",
		&cobra.Command{
			Use: "list", Short: "List tenants that have data",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runTenantList(cmd.Context(), env) },
		},
		&cobra.Command{
			Use: "show ID", Short: "Print the size and state of a tenant's data",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runTenantShow(cmd.Context(), env, args[0]) },
		},
		createCommand(env),
		suspendCommand(env),
		&cobra.Command{
			Use: "activate ID", Short: "Accept requests of a suspended tenant again",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return changeTenant(cmd.Context(), env, args[0], "activated",
					func(_ context.Context, d *daemon.Daemon, id tenant.ID) error { return d.Tenants.Activate(id) })
			},
		},
		deleteCommand(env),
		tierCommand(env),
		quotaCommand(env),
		cleanCommand(env),
		keyCommand(env),
	)
}

func createCommand(env *cli.Env) *cobra.Command {
	var tier string
	c := &cobra.Command{
		Use: "create ID", Short: "Create a tenant without data",
		Long: `Create creates the directories and the database of a tenant, which the first request of
that customer does otherwise. ID is the customer's uid as you write it: 1 to 128 letters, digits
and '@', '.', '_', '-'. customer_A and customer_a are two tenants.`,
		Example: "  sandpiper tenant create customer_A --tier pro\n  sandpiper tenant create ada@example.org",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeTenant(cmd.Context(), env, args[0], "created", func(ctx context.Context, d *daemon.Daemon, id tenant.ID) error {
				if _, err := tenant.Parse(id.String()); err != nil {
					return err
				}
				if err := d.Tiers.Check(tier); err != nil {
					return err
				}
				if err := d.Tenants.Create(ctx, id); err != nil || tier == "" {
					return err
				}
				return d.Tiers.Set(id, tier)
			})
		},
	}
	c.Flags().StringVar(&tier, "tier", "", "its tier, one of tiers: in the configuration")
	return c
}

func suspendCommand(env *cli.Env) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "suspend ID", Short: "Refuse all requests of a tenant",
		Long: `Suspend refuses all further requests of a tenant, cancels its executions and ends its
live interpreters, in all running daemons within a second. Its data is unchanged, and commands
such as files and session can read it.`,
		Example: "  sandpiper tenant suspend customer_A --reason 'unpaid invoice'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeTenant(cmd.Context(), env, args[0], "suspended",
				func(_ context.Context, d *daemon.Daemon, id tenant.ID) error { return d.Tenants.Suspend(id, reason) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason, for tenant list; the tenant does not see it")
	return c
}

func deleteCommand(env *cli.Env) *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "delete ID", Short: "Delete a tenant with all its data",
		Long: `Delete suspends a tenant, waits for the end of its executions, shreds the keys of its vault,
and deletes its files, skills, sessions, records, approvals and API keys. The audit log keeps its
lines. A token in http.tokens remains valid: its next request creates an empty tenant.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !sure {
				return fault.New(fault.Invalid, "nothing was deleted: this cannot be undone").WithHint("confirm with --yes")
			}
			return changeTenant(cmd.Context(), env, args[0], "deleted", func(ctx context.Context, d *daemon.Daemon, id tenant.ID) error {
				return errors.Join(d.Tenants.Delete(ctx, id), forgetKeys(ctx, d, id))
			})
		},
	}
	c.Flags().BoolVar(&sure, "yes", false, "confirm")
	return c
}

func runTenantList(ctx context.Context, env *cli.Env) error {
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		if env.JSONLines {
			return d.Tenants.Each(ctx, func(e home.Entry) error {
				e.Tier = d.Tiers.WithStored(e.ID, e.Tier)
				return env.WriteJSON(e)
			})
		}
		all, err := d.Tenants.List(ctx)
		if err != nil {
			return err
		}
		for i, e := range all {
			all[i].Tier = d.Tiers.WithStored(e.ID, e.Tier)
		}
		if env.JSON {
			return cli.WriteList(env, "tenants", all)
		}
		for _, e := range all {
			env.Printf("%-32s last used %s%s%s\n", cli.VisibleName(cmp.Or(e.ID.String(), "?")), e.Used.Format(time.DateTime),
				tierText(e.Tier), suspensionText(e.Suspension))
			if e.Error != "" {
				env.Warn(e.Error)
			}
		}
		return nil
	})
}

func tierText(tier string) string {
	if tier == "" {
		return ""
	}
	return "  tier " + tier
}

func suspensionText(s *home.Suspension) string {
	switch {
	case s == nil:
		return ""
	case s.Deleting:
		return "  deletion not complete"
	case s.Reason == "":
		return "  suspended since " + s.Since.Local().Format(time.DateTime)
	}
	return "  suspended since " + s.Since.Local().Format(time.DateTime) + ": " + cli.VisibleName(s.Reason)
}

// tenantReport is the JSON output of tenant show.
type tenantReport struct {
	home.Entry
	Tier       string `json:"tier,omitempty"` // in effect
	Sandbox    string `json:"sandbox"`        // in which its code runs, unless policy requires a stronger one
	Files      int64  `json:"files"`
	Bytes      int64  `json:"bytes"`
	Skills     int    `json:"skills"`
	Sessions   int    `json:"sessions"`
	Unfinished int    `json:"unfinished_executions"` // suspended or interrupted
}

func runTenantShow(ctx context.Context, env *cli.Env, uid string) error {
	env.Tenant = uid
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		e, err := d.Tenants.Find(h.ID())
		if err != nil {
			return err
		}
		r := tenantReport{Entry: e}
		if r.Tier, err = d.Tiers.Of(h.ID()); err != nil {
			return err
		}
		r.Sandbox = d.Settings(h.ID()).Sandbox().Name
		use, err := h.Workspace.Usage(ctx)
		if err != nil {
			return err
		}
		r.Files, r.Bytes = use.Files, use.Bytes
		skills, err1 := h.Skills.List(ctx)
		sessions, err2 := h.Sessions.List(ctx)
		unfinished, err3 := h.Journal.ListUnfinished(ctx)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		r.Skills, r.Sessions, r.Unfinished = len(skills), len(sessions), len(unfinished)
		if env.JSON {
			return env.WriteJSON(r)
		}
		env.Printf("tenant       %s\n", cli.VisibleName(e.ID.String()))
		env.Printf("last used    %s%s\n", e.Used.Format(time.DateTime), suspensionText(e.Suspension))
		env.Printf("tier         %s\nsandbox      %s\n", cmp.Or(r.Tier, "none"), r.Sandbox)
		env.Printf("workspace    %s, %s\n", cli.Count(r.Files, "file"), cli.Count(r.Bytes, "byte"))
		env.Printf("skills       %d\nsessions     %d\nunfinished   %s\n", r.Skills, r.Sessions, cli.Count(r.Unfinished, "execution"))
		return nil
	})
}

// noTenant returns the error for a tenant that does not exist, with similar ids, if err is NotFound.
func noTenant(d *daemon.Daemon, id tenant.ID, err error) error {
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	return cmp.Or(d.CheckTenant(id), err)
}

// changeTenant calls change, records the outcome in the audit log and prints it.
func changeTenant(ctx context.Context, env *cli.Env, uid, outcome string,
	change func(context.Context, *daemon.Daemon, tenant.ID) error) error {
	return changeTenantTo(ctx, env, uid, outcome, outcome, change)
}

// changeTenantTo is changeTenant with a text for the new state that differs from the outcome.
func changeTenantTo(ctx context.Context, env *cli.Env, uid, outcome, state string,
	change func(context.Context, *daemon.Daemon, tenant.ID) error) error {
	id, err := tenant.ParseStored(uid)
	if err != nil {
		return err
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		line := audit.Line{Kind: audit.Configuration, Tenant: id, Section: "tenant", Outcome: outcome}
		err := noTenant(d, id, change(ctx, d, id))
		if err != nil {
			line.Outcome = "not_" + outcome
		}
		if err := errors.Join(err, d.Record(context.WithoutCancel(ctx), line, "the tenant is "+state)); err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "message": fmt.Sprintf("Tenant %s is %s", id, state)})
		}
		env.Printf("Tenant %s is %s.\n", cli.VisibleName(id.String()), state)
		return nil
	})
}
