package daemon

import (
	"crypto/tls"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
)

// edge is how connections of clients are encrypted, and how clients are identified by certificates.
type edge struct {
	config   *tls.Config          // nil means plain HTTP
	clients  *access.Certificates // nil means that client certificates identify no caller
	required bool                 // each client must have a certificate
}

// openTLS reads the configured certificates. log receives warnings; nil means discard.
func (s HTTP) openTLS(log *slog.Logger) (edge, error) {
	t := s.d.cfg.HTTP.TLS
	if !t.Enabled() {
		return edge{}, nil
	}
	e, err := s.openCertificate(t, log)
	if err != nil {
		return edge{}, err
	}
	if t.ClientCA == "" {
		return e, nil
	}
	roots, err := httpserver.OpenRoots(t.ClientCA, log)
	if err != nil {
		return edge{}, err
	}
	// Certificates are verified for each request and not in the handshake: a client receives the
	// reason, the refusal is recorded, and a connection does not outlive its certificate or CA.
	e.config.ClientAuth = tls.RequestClientCert
	e.clients = &access.Certificates{Roots: roots.Pool, Field: t.ClientField, Pattern: t.ClientPattern, Scopes: t.ClientScopes}
	if e.clients.Scopes == nil {
		e.clients.Scopes = tokenScopes
	}
	e.required = !t.ClientOptional
	return e, nil
}

// openCertificate returns the configuration with the server's certificate only.
func (s HTTP) openCertificate(t config.TLS, log *slog.Logger) (edge, error) {
	if t.Cert != "" {
		cert, err := httpserver.OpenCertificate(t.Cert, t.Key, log)
		if err != nil {
			return edge{}, err
		}
		return edge{config: &tls.Config{GetCertificate: cert.Get}}, nil
	}
	a := httpserver.ACME{Domains: t.ACME.Domains, Directory: t.ACME.Directory, Email: t.ACME.Email, Dir: s.d.data.sub("acme"), Log: log}
	if t.ACME.CA != "" {
		roots, err := httpserver.OpenRoots(t.ACME.CA, log)
		if err != nil {
			return edge{}, err
		}
		a.Roots = roots.Pool()
	}
	return edge{config: a.Config()}, nil
}

// Scheme returns the scheme of the daemon's URL.
func (s HTTP) Scheme() string {
	if s.d.cfg.HTTP.TLS.Enabled() {
		return "https"
	}
	return "http"
}
