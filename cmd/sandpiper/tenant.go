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
func ofTenant(env *app, c *cobra.Command) *cobra.Command {
	env.tenant = tenant.Local.String()
	c.PersistentFlags().Var((*uidFlag)(&env.tenant), "tenant", "act on the data of tenant `ID`")
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
func (env *app) tenantID() (tenant.ID, error) {
	return tenant.ParseStored(cmp.Or(env.tenant, tenant.Local.String()))
}

// acquire opens the home of the tenant, also of a suspended one. It does not create a tenant that
// has neither data nor an access token, since the name is probably misspelled.
func acquire(ctx context.Context, env *app, d *daemon.Daemon) (*home.Home, error) {
	return acquireBy(ctx, env, d, d.Tenants.AcquireSuspended)
}

func acquireBy(ctx context.Context, env *app, d *daemon.Daemon, open func(context.Context, tenant.ID) (*home.Home, error)) (*home.Home, error) {
	id, err := env.tenantID()
	if err != nil {
		return nil, err
	}
	if err := d.CheckTenant(id); err != nil {
		return nil, err
	}
	return open(ctx, id)
}

// withHome calls use with the open home of the tenant.
func withHome(ctx context.Context, env *app, use func(*home.Home) error) error {
	return withDaemonHome(ctx, env, func(_ *daemon.Daemon, home *home.Home) error { return use(home) })
}

// withDaemon calls use with a daemon that has not started its sandbox.
func withDaemon(env *app, use func(*daemon.Daemon) error) (err error) {
	d, err := openDaemon(env, options{quiet: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return use(d)
}

// withDaemonHome calls use with a daemon and the open home of the tenant.
func withDaemonHome(ctx context.Context, env *app, use func(*daemon.Daemon, *home.Home) error) error {
	return withDaemon(env, func(d *daemon.Daemon) (err error) {
		home, err := acquire(ctx, env, d)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, home.Release(context.WithoutCancel(ctx))) }()
		return use(d, home)
	})
}

// withWarmHome calls use with a daemon that has started a sandbox, and the open home of the
// tenant, which must not be suspended. output receives the output of code immediately.
func withWarmHome(ctx context.Context, env *app, output func([]byte), use func(*daemon.Daemon, *home.Home) error) error {
	return withWarmDaemon(ctx, env, options{output: output, quiet: true}, use)
}

// withWarmDaemon is withWarmHome for a daemon with other options.
func withWarmDaemon(ctx context.Context, env *app, o options, use func(*daemon.Daemon, *home.Home) error) error {
	o.warm = true
	d, err := openDaemon(env, o)
	if err != nil {
		return err
	}
	defer closeDaemon(env, d)
	d.Warm()
	home, err := acquireBy(ctx, env, d, d.Tenants.Acquire)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	return use(d, home)
}

// closeDaemon closes a daemon that ran code, and warns about data that was not saved.
func closeDaemon(env *app, d *daemon.Daemon) {
	if err := d.Close(); err != nil {
		env.warn(errorText(err))
	}
}
