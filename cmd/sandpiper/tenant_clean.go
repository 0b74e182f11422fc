package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

type cleanOptions struct {
	inactive       string
	suspended, yes bool
}

func cleanCommand(env *cli.Env) *cobra.Command {
	var o cleanOptions
	c := &cobra.Command{
		Use: "clean", Short: "Delete the tenants that were not used for a long time",
		Long: `Clean lists the tenants that were not used for longer than inactive: in the configuration
allows, which may differ by tier, and deletes them with --yes as tenant delete does. It never
deletes the tenant local, and suspended ones only with --suspended.`,
		Example: "  sandpiper tenant clean\n  sandpiper tenant clean --inactive 90d --yes",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTenantClean(cmd.Context(), env, o) },
	}
	c.Flags().StringVar(&o.inactive, "inactive", "", "time without use, such as 90d, in place of the configured one")
	c.Flags().BoolVar(&o.suspended, "suspended", false, "include suspended tenants")
	c.Flags().BoolVar(&o.yes, "yes", false, "delete them")
	return c
}

func runTenantClean(ctx context.Context, env *cli.Env, o cleanOptions) error {
	flags := map[string]string{}
	if o.inactive != "" {
		flags["inactive"] = o.inactive
	}
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true, Flags: flags})
	if err != nil {
		return err
	}
	defer cli.CloseDaemon(env, d)
	entries, err := d.Tenants.List(ctx)
	if err != nil {
		return err
	}
	found := []home.Entry{}
	var failed []error
	for _, e := range entries {
		if !inactive(d, e, o) {
			continue
		}
		if o.yes {
			deleted, err := cleanOne(ctx, env, d, e, o)
			if err != nil {
				failed = append(failed, err)
			}
			if !deleted {
				continue
			}
		}
		found = append(found, e)
	}
	return errors.Join(errors.Join(failed...), printCleaned(env, found, o))
}

// inactive reports whether a tenant was not used for longer than its configuration allows.
func inactive(d *daemon.Daemon, e home.Entry, o cleanOptions) bool {
	allowed := d.Settings(e.ID).Inactive
	if o.inactive != "" {
		allowed = d.Settings(tenant.ID{}).Inactive
	}
	if allowed == 0 || e.Error != "" || e.ID == tenant.Local || e.Suspension != nil && !o.suspended {
		return false
	}
	return time.Since(e.Used) > allowed
}

// cleanOne deletes a tenant, unless it has been used since it was listed.
func cleanOne(ctx context.Context, env *cli.Env, d *daemon.Daemon, e home.Entry, o cleanOptions) (deleted bool, err error) {
	if e.Suspension == nil {
		if err := d.Tenants.Suspend(e.ID, "inactive"); err != nil {
			return false, err
		}
	}
	now, err := d.Tenants.Find(e.ID) // further requests are refused
	if err != nil {
		return false, err
	}
	if !inactive(d, home.Entry{ID: e.ID, Used: now.Used}, o) {
		if e.Suspension == nil {
			err = d.Tenants.Activate(e.ID)
		}
		return false, err
	}
	line := audit.Line{Kind: audit.Configuration, Tenant: e.ID, Section: "tenant", Outcome: "deleted"}
	if err = errors.Join(d.Tenants.Delete(ctx, e.ID), forgetKeys(ctx, d, e.ID)); err != nil {
		line.Outcome = "not_deleted"
	}
	return err == nil, errors.Join(err, d.Record(context.WithoutCancel(ctx), line, "the tenant is deleted"))
}

func printCleaned(env *cli.Env, all []home.Entry, o cleanOptions) error {
	if env.JSON {
		return env.WriteJSON(map[string]any{"count": len(all), "deleted": o.yes, "tenants": all})
	}
	for _, e := range all {
		env.Printf("%-32s last used %s%s\n", cli.VisibleName(e.ID.String()), e.Used.Format(time.DateTime), suspensionText(e.Suspension))
	}
	switch {
	case len(all) == 0:
		env.Printf("No tenant is inactive.\n")
	case o.yes:
		env.Printf("%s deleted.\n", cli.Count(len(all), "tenant"))
	default:
		env.Printf("%s would be deleted; --yes deletes.\n", cli.Count(len(all), "tenant"))
	}
	return nil
}
