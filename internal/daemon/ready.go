package daemon

import (
	"context"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// health reports whether the daemon can serve.
type health struct {
	data    *data
	tokens  []config.Token
	sandbox *lazyBackend // nil if the profile needs none
	log     *slog.Logger
}

// check returns the reason why the daemon is not ready. The message is public and
// names no tenant.
func (h health) check(ctx context.Context) error {
	if err := h.data.checkKeys(); err != nil {
		return err
	}
	if err := h.data.homes.CheckDisk(); err != nil {
		return err
	}
	if err := h.checkDatabases(ctx); err != nil {
		return err
	}
	if h.sandbox == nil {
		return nil
	}
	_, err := h.sandbox.wait(ctx)
	return err
}

// checkDatabases returns an error for databases that are damaged, deleted or of a newer
// schema. Only the log names the tenant.
func (h health) checkDatabases(ctx context.Context) error {
	named := []tenant.ID{tenant.Local}
	for _, t := range h.tokens {
		named = append(named, t.Tenant)
	}
	id, err := h.data.homes.Check(ctx, named)
	if err != nil && !id.IsZero() {
		h.log.Error("the data of a tenant cannot be used", "tenant", id.String(), "error", err)
		return fault.Wrap(fault.KindOf(err), err, "the data of a tenant cannot be used: %s", fault.Message(err))
	}
	return err
}
