package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// OfTenant adds the flag --tenant to a command and its subcommands. Every command that
// reads or changes data of a tenant has it.
func OfTenant(env *Env, c *cobra.Command) *cobra.Command {
	env.Tenant = tenant.Local.String()
	c.PersistentFlags().Var((*UIDFlag)(&env.Tenant), "tenant", "act on the data of tenant `ID`")
	return c
}

// UIDFlag is the value of a flag with the uid of a tenant. It rejects an empty one, which a script
// passes whose variable is not set, and which would mean the local tenant or all.
type UIDFlag string

// String implements pflag.Value.
func (f *UIDFlag) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *UIDFlag) Set(uid string) error {
	if uid == "" {
		return errors.New("it is the id of a tenant, and not empty")
	}
	*f = UIDFlag(uid)
	return nil
}

// Type implements pflag.Value.
func (f *UIDFlag) Type() string { return "string" }

// TenantID returns the tenant of the flag --tenant.
func (env *Env) TenantID() (tenant.ID, error) {
	return tenant.ParseStored(cmp.Or(env.Tenant, tenant.Local.String()))
}

// Acquire opens the home of the tenant, also of a suspended one. It does not create a tenant that
// has neither data nor an access token, since the name is probably misspelled.
func Acquire(ctx context.Context, env *Env, d *daemon.Daemon) (*home.Home, error) {
	return acquireBy(ctx, env, d, d.Tenants.AcquireSuspended)
}

func acquireBy(ctx context.Context, env *Env, d *daemon.Daemon, open func(context.Context, tenant.ID) (*home.Home, error)) (*home.Home,
	error) {
	id, err := env.TenantID()
	if err != nil {
		return nil, err
	}
	if err := d.CheckTenant(id); err != nil {
		return nil, err
	}
	return open(ctx, id)
}

// WithHome calls use with the open home of the tenant.
func WithHome(ctx context.Context, env *Env, use func(*home.Home) error) error {
	return WithDaemonHome(ctx, env, func(_ *daemon.Daemon, home *home.Home) error { return use(home) })
}

// WithDaemon calls use with a daemon that has not started its sandbox.
func WithDaemon(env *Env, use func(*daemon.Daemon) error) (err error) {
	d, err := OpenDaemon(env, Options{Quiet: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return use(d)
}

// WithDaemonHome calls use with a daemon and the open home of the tenant.
func WithDaemonHome(ctx context.Context, env *Env, use func(*daemon.Daemon, *home.Home) error) error {
	return WithDaemon(env, func(d *daemon.Daemon) (err error) {
		home, err := Acquire(ctx, env, d)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, home.Release(context.WithoutCancel(ctx))) }()
		return use(d, home)
	})
}

// WithWarmHome calls use with a daemon that has started a sandbox, and the open home of the
// tenant, which must not be suspended. output receives the output of code immediately.
func WithWarmHome(ctx context.Context, env *Env, output func([]byte), use func(*daemon.Daemon, *home.Home) error) error {
	return WithWarmDaemon(ctx, env, Options{Output: output, Quiet: true}, use)
}

// WithWarmDaemon is withWarmHome for a daemon with other options.
func WithWarmDaemon(ctx context.Context, env *Env, o Options, use func(*daemon.Daemon, *home.Home) error) error {
	o.warm = true
	d, err := OpenDaemon(env, o)
	if err != nil {
		return err
	}
	defer CloseDaemon(env, d)
	d.Warm()
	home, err := acquireBy(ctx, env, d, d.Tenants.Acquire)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	return use(d, home)
}

// CloseDaemon closes a daemon that ran code, and warns about data that was not saved.
func CloseDaemon(env *Env, d *daemon.Daemon) {
	if err := d.Close(); err != nil {
		env.Warn(fault.Sentence(err))
	}
}

// TenantNames are the ids of tenants that have data, a token or settings.
func TenantNames(r Request) ([]cobra.Completion, error) {
	all, err := home.TenantNames(r.Cfg.DataDir)
	for _, t := range r.Cfg.HTTP.Tokens {
		all = append(all, t.Tenant.String())
	}
	all = append(all, r.Cfg.Tenants.Named()...)
	slices.Sort(all)
	return slices.Compact(all), err
}
