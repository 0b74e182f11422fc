package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func tierCommand(env *cli.Env) *cobra.Command {
	var none bool
	c := &cobra.Command{
		Use: "tier ID [NAME]", Short: "Print or set the tier of a tenant",
		Long: `Tier stores the tier of a tenant, which selects a block of settings below tiers: in the
configuration. Running daemons use it within a second, for new requests. Without NAME it prints
the tier in effect: the one of the tenant's own block in the configuration, or the stored one, or
the first whose patterns match, or the one named default.`,
		Example: "  sandpiper tenant tier customer_A pro\n  sandpiper tenant tier customer_A --none",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if none && len(args) == 2 {
				return fault.New(fault.Invalid, "both a tier and --none are given; use one")
			}
			if len(args) == 1 && !none {
				return runTenantTier(env, args[0])
			}
			name := strings.Join(args[1:], "")
			return changeTenantTo(cmd.Context(), env, args[0], "tier_set", "assigned to tier "+cmp.Or(name, "none"),
				func(_ context.Context, d *daemon.Daemon, id tenant.ID) error {
					return d.Tiers.Set(id, name)
				})
		},
	}
	c.Flags().BoolVar(&none, "none", false, "remove the stored tier")
	return c
}

func runTenantTier(env *cli.Env, uid string) error {
	id, err := tenant.ParseStored(uid)
	if err != nil {
		return err
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		if err := d.CheckTenant(id); err != nil {
			return err
		}
		tier, err := d.Tiers.Of(id)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"customer_uid": id, "tier": tier})
		}
		env.Printf("%s\n", cmp.Or(tier, "none"))
		return nil
	})
}
