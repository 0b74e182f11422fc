package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// ofTenant adds the flag --tenant to a command and its subcommands. Every command that
// reads or changes data of a tenant has it.
func (a *app) ofTenant(c *cobra.Command) *cobra.Command {
	a.tenant = tenant.Local.String()
	c.PersistentFlags().Var((*uidFlag)(&a.tenant), "tenant", "act on the data of tenant `ID`")
	return c
}

// uidFlag is the value of a flag with the uid of a tenant. It rejects an empty one, which a script
// passes whose variable is not set, and which would mean the local tenant or all.
type uidFlag string

// String implements pflag.Value.
func (f *uidFlag) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *uidFlag) Set(uid string) error {
	if uid == "" {
		return errors.New("it is the id of a tenant, and not empty")
	}
	*f = uidFlag(uid)
	return nil
}

// Type implements pflag.Value.
func (f *uidFlag) Type() string { return "string" }

// tenantID returns the tenant of the flag --tenant.
func (a *app) tenantID() (tenant.ID, error) {
	return tenant.ParseStored(cmp.Or(a.tenant, tenant.Local.String()))
}

// acquire opens the home of the tenant, also of a suspended one. It does not create a tenant that
// has neither data nor an access token, since the name is probably misspelled.
func (a *app) acquire(ctx context.Context, d *daemon.Daemon) (*home.Home, error) {
	return a.acquireBy(ctx, d, d.Tenants.AcquireSuspended)
}

func (a *app) acquireBy(ctx context.Context, d *daemon.Daemon, open func(context.Context, tenant.ID) (*home.Home, error)) (*home.Home, error) {
	id, err := a.tenantID()
	if err != nil {
		return nil, err
	}
	if err := d.CheckTenant(id); err != nil {
		return nil, err
	}
	return open(ctx, id)
}

// withHome calls use with the open home of the tenant.
func (a *app) withHome(ctx context.Context, use func(*home.Home) error) error {
	return a.withDaemonHome(ctx, func(_ *daemon.Daemon, home *home.Home) error { return use(home) })
}

// withDaemon calls use with a daemon that has not started its sandbox.
func (a *app) withDaemon(use func(*daemon.Daemon) error) (err error) {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return use(d)
}

// withDaemonHome calls use with a daemon and the open home of the tenant.
func (a *app) withDaemonHome(ctx context.Context, use func(*daemon.Daemon, *home.Home) error) error {
	return a.withDaemon(func(d *daemon.Daemon) (err error) {
		home, err := a.acquire(ctx, d)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, home.Release(context.WithoutCancel(ctx))) }()
		return use(d, home)
	})
}

// withWarmHome calls use with a daemon that has started a sandbox, and the open home of the
// tenant, which must not be suspended. output receives the output of code immediately.
func (a *app) withWarmHome(ctx context.Context, output func([]byte), use func(*daemon.Daemon, *home.Home) error) error {
	return a.withWarmDaemon(ctx, options{output: output, quiet: true}, use)
}

// withWarmDaemon is withWarmHome for a daemon with other options.
func (a *app) withWarmDaemon(ctx context.Context, o options, use func(*daemon.Daemon, *home.Home) error) error {
	o.warm = true
	d, err := a.daemon(o)
	if err != nil {
		return err
	}
	defer a.closeDaemon(d)
	d.Warm()
	home, err := a.acquireBy(ctx, d, d.Tenants.Acquire)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	return use(d, home)
}

// closeDaemon closes a daemon that ran code, and warns about data that was not saved.
func (a *app) closeDaemon(d *daemon.Daemon) {
	if err := d.Close(); err != nil {
		a.warn(errorText(err))
	}
}
