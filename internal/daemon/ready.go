package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"

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

	checking atomic.Bool // whether databases are checked in the background
	files    bounded
	disk     diskProbe
	chain    chainProbe
}

// check returns the reason why the daemon is not ready. The message is public and
// names no tenant.
func (h *health) check(ctx context.Context) error {
	if err := h.files.run(ctx, h.data.homes.Go, h.checkFiles); err != nil {
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

// checkFiles checks everything but databases. A disk that hangs blocks it.
func (h *health) checkFiles() error {
	for _, check := range []func() error{h.data.checkKeys, h.data.homes.CheckDisk, h.disk.check, h.chain.check} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkDatabases returns an error if there is one tenant and its database is damaged, deleted or
// of a newer schema. With several tenants the damage of one does not affect others: those in use
// are checked in the background, and the log names the tenant.
func (h *health) checkDatabases(ctx context.Context) error {
	if h.http.Authenticated() {
		if h.checking.CompareAndSwap(false, true) {
			h.data.homes.Go(func() {
				defer h.checking.Store(false)
				_ = h.checkNamed(context.WithoutCancel(ctx), nil) // logs the failures
			})
		}
		return nil
	}
	return h.checkNamed(ctx, []tenant.ID{tenant.Local})
}

// checkNamed checks databases of open homes and of named tenants, and logs and returns failures.
func (h *health) checkNamed(ctx context.Context, named []tenant.ID) error {
	failed, err := h.data.homes.Check(ctx, named)
	for id, why := range failed {
		h.log.Error("the data of a tenant cannot be used", "tenant", id.String(), "error", why)
		err = fault.Wrap(fault.KindOf(why), why, "the data of a tenant cannot be used: %s", fault.Message(why))
	}
	return err
}
