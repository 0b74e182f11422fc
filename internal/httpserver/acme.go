package httpserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// ACME obtains the certificates of domains from a CA by the protocol ACME (RFC 8555), when a client
// connects for the first time, and renews them when a third of their lifetime is left. The CA
// connects to port 443 of the domain, which must lead to this server (tls-alpn-01, RFC 8737).
type ACME struct {
	Domains   []string       // at least one; clients that name no domain get the certificate of the first
	Directory string         // URL of the CA; "" means Let's Encrypt
	Email     string         // of the account; "" means none
	Roots     *x509.CertPool // of the server of the CA; nil means those of the system
	Dir       string         // for keys and certificates, with mode 0600; required
	Log       *slog.Logger   // nil means discard

	mu     sync.Mutex
	logged time.Time // last warning
}

// Config returns a configuration of TLS with the certificates. It accepts the terms of the CA.
func (a *ACME) Config() *tls.Config {
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(a.Dir), Email: a.Email, HostPolicy: a.check,
		Client: &acme.Client{DirectoryURL: a.Directory, UserAgent: "sandpiper"},
	}
	if a.Directory == "" {
		m.Client.DirectoryURL = autocert.DefaultACMEDirectory
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: a.Roots}
	m.Client.HTTPClient = &http.Client{Transport: transport, Timeout: time.Minute}
	return &tls.Config{
		NextProtos: []string{"h2", "http/1.1", acme.ALPNProto},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName == "" {
				hello.ServerName = a.Domains[0]
			}
			c, err := m.GetCertificate(hello)
			if err != nil && a.check(hello.Context(), strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))) == nil {
				a.warn(hello.ServerName, err)
			}
			return c, err
		},
	}
}

// errDomain is returned for domains that are not configured.
type errDomain struct{}

func (errDomain) Error() string { return "the domain is not in http.tls.acme.hosts" }

func (a *ACME) check(_ context.Context, domain string) error {
	if !slices.Contains(a.Domains, domain) {
		return errDomain{}
	}
	return nil
}

// warn logs at most one error a minute: each client that connects causes one.
func (a *ACME) warn(domain string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.logged) < time.Minute {
		return
	}
	a.logged = time.Now()
	a.Log.Warn("no certificate could be obtained", "domain", domain, "error", err)
}
