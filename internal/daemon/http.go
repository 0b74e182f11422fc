package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/console"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Listen opens host:port. An address that other machines can reach requires authentication.
func (d *Daemon) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if _, err := d.openTLS(nil); err != nil { // before anything is announced
		return nil, err
	}
	return httpserver.Listen(ctx, addr, d.cfg.HTTP.Authenticated())
}

// ServeHTTP serves MCP over HTTP until ctx ends, then ends running calls within a
// limited time. It closes ln.
func (d *Daemon) ServeHTTP(ctx context.Context, ln net.Listener) error {
	if err := d.checkBackends(ctx); err != nil {
		return errors.Join(err, ln.Close())
	}
	h := d.cfg.HTTP
	callers := &callers{now: func() config.HTTP { return d.now().HTTP }, refused: d.tokenRefused, log: d.log.Logger}
	edge, err := d.openTLS(d.log.Logger)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	callers.certificates, callers.required = edge.clients, edge.required
	if err := callers.open(h, d.openKeys); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer callers.close()
	resource, err := callers.accept(h.OIDC)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	var verify func(context.Context, access.Credentials) (access.Identity, error)
	if h.Authenticated() {
		verify = callers.verifier()
	}
	face := d.server.HTTP(mcpserver.HTTPConfig{Verify: verify, Limited: func(id tenant.ID) bool { return len(d.data.settings(id).Quotas) > 0 }, Foreign: d.foreignID, Resource: resource, TokenConnections: h.TokenConnections, TokenRequests: h.TokenRequests})
	defer face.Close()
	d.serving(callers, face)
	defer d.serving(nil, nil)
	d.prepare()
	cfg := httpserver.Config{MCP: face, TLS: edge.config, Metadata: face.Metadata(), Drain: face.Drain, Grace: h.Drain, Log: d.log.Logger, Connections: h.Connections, AddressConnections: h.PerAddress, Ready: d.health().check}
	cfg.Pages, cfg.PagesPath, cfg.Login = d.console(verify), console.Path, loginAdvice(h)
	if h.Events {
		cfg.Events = face.Events()
	}
	srv, err := httpserver.New(cfg)
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

// console returns the pages on which persons answer approvals.
func (d *Daemon) console(verify func(context.Context, access.Credentials) (access.Identity, error)) http.Handler {
	return console.New(console.Config{
		Verify: verify, Tenant: tenant.Local, Tenants: d.Tenants, Log: d.log.Logger,
		Gate: func(h *home.Home) *redact.Gate { return d.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}) },
	})
}

// tokenRefused records that credentials were refused. The log has the reason of those that have
// a line of the audit log, and not more, so that a client cannot fill the disk.
func (d *Daemon) tokenRefused(reason error) {
	if d.data.refused.add(audit.Line{Kind: audit.Login, Outcome: "refused"}) {
		d.log.Warn("refused a token or certificate; others of the next minute are counted in the audit log", "reason", fmt.Sprintf("%.300s", reason))
	}
}

// foreignID records that a tenant used an id of another one.
func (d *Daemon) foreignID(caller tenant.ID, f wire.Foreign) {
	d.data.auditLater(audit.Line{Kind: audit.Access, Tenant: caller, Outcome: string(f)})
}

func (d *Daemon) health() *health {
	h := &health{data: d.data, http: d.cfg.HTTP, sandbox: d.backend.own, log: d.log.Logger}
	dir := d.data.dataDir
	h.disk.dirs = []string{string(dir), dir.sub("private"), dir.sub("audit")}
	h.chain = chainProbe{dir: dir, log: d.log.Logger, goes: d.data.homes.Go}
	if d.isPassthrough() {
		h.sandbox = nil
	}
	return h
}

// serving sets the HTTP callers for Reload.
func (d *Daemon) serving(c *callers, face *wire.HTTP) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	d.callers, d.face = c, face
}

func (d *Daemon) openKeys() (*access.Keys, error) { return d.OpenKeys(context.Background()) }

// OpenKeys opens the API keys of the data directory. The caller closes them.
func (d *Daemon) OpenKeys(ctx context.Context) (*access.Keys, error) {
	return access.OpenKeys(ctx, d.data.sub("access.db"))
}

// AcceptsKeys reports whether a daemon with this configuration accepts API keys.
func (d *Daemon) AcceptsKeys() bool { return d.now().HTTP.Keys }
