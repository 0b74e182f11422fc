package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// ofTenant gives a command, and those below it, the flag --tenant. Every command that
// reads or changes what a tenant owns has it.
func (a *app) ofTenant(c *cobra.Command) *cobra.Command {
	c.PersistentFlags().StringVar(&a.tenant, "tenant", tenant.Local.String(), "act on the data of tenant `ID`")
	return c
}

// tenantID is the tenant that the command line names.
func (a *app) tenantID() (tenant.ID, error) {
	return tenant.Parse(cmp.Or(a.tenant, tenant.Local.String()))
}

// acquire opens the home of the tenant that the command line names. One that has
// neither data nor a token is probably misspelled, and is not made.
func (a *app) acquire(ctx context.Context, d *daemon.Daemon) (*home.Home, error) {
	id, err := a.tenantID()
	if err != nil {
		return nil, err
	}
	if err := d.CheckTenant(id); err != nil {
		return nil, err
	}
	return d.Tenants.Acquire(ctx, id)
}
