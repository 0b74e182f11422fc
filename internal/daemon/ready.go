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
	http    config.HTTP
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

// checkDatabases logs databases that are damaged, deleted or of a newer schema. It returns an
// error only if there is one tenant: the damage of one does not affect others.
func (h health) checkDatabases(ctx context.Context) error {
	named := []tenant.ID{tenant.Local}
	for _, t := range h.http.Tokens {
		named = append(named, t.Tenant)
	}
	failed, err := h.data.homes.Check(ctx, named)
	for id, why := range failed {
		h.log.Error("the data of a tenant cannot be used", "tenant", id.String(), "error", why)
		if !h.http.Authenticated() {
			return fault.Wrap(fault.KindOf(why), why, "the data of a tenant cannot be used: %s", fault.Message(why))
		}
	}
	return err
}
