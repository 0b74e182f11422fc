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

// HTTP serves a daemon over HTTP.
type HTTP struct{ d *Daemon }

// Listen opens host:port. An address that other machines can reach requires authentication.
func (s HTTP) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if _, err := s.openTLS(nil); err != nil { // before anything is announced
		return nil, err
	}
	return httpserver.Listen(ctx, addr, s.d.cfg.HTTP.Authenticated())
}

// Serve serves MCP over HTTP until ctx ends, then ends running calls within a
// limited time. It closes ln.
func (s HTTP) Serve(ctx context.Context, ln net.Listener) error {
	if err := (sandboxes{s.d}).checkBackends(ctx); err != nil {
		return errors.Join(err, ln.Close())
	}
	h := s.d.cfg.HTTP
	callers := &callers{now: func() config.HTTP { return s.d.now().HTTP }, refused: s.tokenRefused, log: s.d.log.Logger}
	edge, err := s.openTLS(s.d.log.Logger)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	callers.certificates, callers.required = edge.clients, edge.required
	if err := callers.open(h, s.openKeys); err != nil {
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
	mcp := s.d.server.HTTP(mcpserver.HTTPConfig{
		Verify:           verify,
		Limited:          func(id tenant.ID) bool { return len(s.d.data.settings(id).Quotas) > 0 },
		Foreign:          s.foreignID,
		Resource:         resource,
		TokenConnections: h.TokenConnections,
		TokenRequests:    h.TokenRequests,
	})
	defer mcp.Close()
	s.serving(callers, mcp)
	defer s.serving(nil, nil)
	s.d.prepare()
	cfg := httpserver.Config{
		MCP:                mcp,
		TLS:                edge.config,
		Metadata:           mcp.Metadata(),
		Drain:              mcp.Drain,
		Grace:              h.Drain,
		Log:                s.d.log.Logger,
		Connections:        h.Connections,
		AddressConnections: h.PerAddress,
		Ready:              s.health().check,
	}
	cfg.Pages, cfg.PagesPath, cfg.Login = s.console(verify), console.Path, loginAdvice(h)
	if h.Events {
		cfg.Events = mcp.Events()
	}
	srv, err := httpserver.New(cfg)
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

// console returns the pages on which persons answer approvals.
func (s HTTP) console(verify func(context.Context, access.Credentials) (access.Identity, error)) http.Handler {
	return console.New(console.Config{
		Verify: verify, Tenant: tenant.Local, Tenants: s.d.Tenants, Log: s.d.log.Logger,
		Gate: func(h *home.Home) *redact.Gate { return s.d.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}) },
	})
}

// tokenRefused records that credentials were refused. The log has the reason of those that have
// a line of the audit log, and not more, so that a client cannot fill the disk.
func (s HTTP) tokenRefused(reason error) {
	if s.d.data.refused.add(audit.Line{Kind: audit.Login, Outcome: "refused"}) {
		s.d.log.Warn("refused a token or certificate; others of the next minute are counted in the audit log", "reason",
			fmt.Sprintf("%.300s", reason))
	}
}

// foreignID records that a tenant used an id of another one.
func (s HTTP) foreignID(caller tenant.ID, f wire.Foreign) {
	s.d.data.auditLater(audit.Line{Kind: audit.Access, Tenant: caller, Outcome: string(f)})
}

func (s HTTP) health() *health {
	h := &health{data: s.d.data, http: s.d.cfg.HTTP, sandbox: s.d.backend.own, log: s.d.log.Logger}
	dir := s.d.data.dataDir
	h.disk.dirs = []string{string(dir), dir.sub("private"), dir.sub("audit")}
	h.chain = chainProbe{dir: dir, log: s.d.log.Logger, goes: s.d.data.homes.Go}
	if s.d.isRelay() {
		h.sandbox = nil
	}
	return h
}

// serving sets the HTTP callers for Reload.
func (s HTTP) serving(c *callers, mcp *wire.HTTP) {
	s.d.reloading.Lock()
	defer s.d.reloading.Unlock()
	s.d.callers, s.d.mcp = c, mcp
}

func (s HTTP) openKeys() (*access.Keys, error) { return s.OpenKeys(context.Background()) }

// OpenKeys opens the API keys of the data directory. The caller closes them.
func (s HTTP) OpenKeys(ctx context.Context) (*access.Keys, error) {
	return access.OpenKeys(ctx, s.d.data.sub("access.db"))
}

// AcceptsKeys reports whether a daemon with this configuration accepts API keys.
func (s HTTP) AcceptsKeys() bool { return s.d.now().HTTP.Keys }
