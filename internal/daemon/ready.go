package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// key is the file that all keys of the data directory come from.
func (d *Daemon) key() secret.KeyFile { return secret.KeyFile(d.dir("key")) }

// readiness says why the daemon should be sent no work. It is shown to anybody who
// asks, and names no tenant.
func (d *Daemon) readiness(ctx context.Context) error {
	if err := d.checkKeys(); err != nil {
		return err
	}
	if err := d.Tenants.CheckDisk(); err != nil {
		return err
	}
	if err := d.checkDatabases(ctx); err != nil {
		return err
	}
	if d.passes() {
		return nil
	}
	_, err := d.sandbox(ctx)
	return err
}

// checkDatabases refuses databases that are damaged, gone or of a newer Sandpiper. The
// log says whose.
func (d *Daemon) checkDatabases(ctx context.Context) error {
	named := []tenant.ID{tenant.Local}
	for _, t := range d.cfg.HTTP.Tokens {
		named = append(named, t.Tenant)
	}
	id, err := d.Tenants.Check(ctx, named)
	if err != nil && !id.IsZero() {
		d.log.Error("the data of a tenant cannot be used", "tenant", id.String(), "error", err)
		return fault.Wrap(fault.KindOf(err), err, "the data of a tenant cannot be used: %s", fault.Message(err))
	}
	return err
}

// checkKeys refuses keys that are not those that the data directory was written with.
// A master key that is not in a file is checked when a vault is opened.
func (d *Daemon) checkKeys() error {
	if err := d.key().Check(); err != nil {
		return err
	}
	if m, ok := d.master.(interface{ Check() error }); ok {
		return m.Check()
	}
	return nil
}
