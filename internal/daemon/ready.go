package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// key returns the key file of the data directory.
func (d *Daemon) key() secret.KeyFile { return secret.KeyFile(d.dir("key")) }

// readiness returns the reason why the daemon is not ready. The message is public and
// names no tenant.
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
	if d.isPassthrough() {
		return nil
	}
	_, err := d.sandbox(ctx)
	return err
}

// checkDatabases returns an error for databases that are damaged, deleted or of a newer
// schema. Only the log names the tenant.
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

// checkKeys returns an error if a key differs from the one that the data directory was
// written with. A master key outside a file is checked when a vault is opened.
func (d *Daemon) checkKeys() error {
	if err := d.key().Check(); err != nil {
		return err
	}
	if m, ok := d.master.(interface{ Check() error }); ok {
		return m.Check()
	}
	return nil
}
