package httpserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// pebble is Let's Encrypt's ACME server for tests.
type pebble struct {
	directory string
	web       *x509.CertPool // of the directory
	orders    atomic.Int64

	mu      sync.Mutex
	handler http.Handler
	roots   *x509.CertPool // of issued certificates
}

func startPebble(t *testing.T) *pebble {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	p := &pebble{web: x509.NewCertPool()}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "order-plz") {
			p.orders.Add(1)
		}
		p.mu.Lock()
		h := p.handler
		p.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.directory = server.URL + wfe.DirectoryPath
	p.web.AddCert(server.Certificate())
	return p
}

// validate makes pebble connect to a server for every domain, and issue certificates that are valid
// for some seconds.
func (p *pebble) validate(t *testing.T, url string, seconds uint64) {
	t.Helper()
	_, text, _ := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	quiet, store := log.New(io.Discard, "", 0), db.NewMemoryStore()
	authority := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "default",
		ValidityPeriod: seconds}})
	front := wfe.New(quiet, store, va.New(quiet, port, port, true, resolver(t), store), authority, []string{"pebble"}, true, false, 1, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler, p.roots = front.Handler(), x509.NewCertPool()
	p.roots.AppendCertsFromPEM(authority.GetRootCert(0).PEM())
}

// resolver starts a DNS server over TCP for which every name is 127.0.0.1.
func resolver(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for resolve(c) == nil {
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// resolve answers one question. A message follows its length in two bytes.
func resolve(c io.ReadWriter) error {
	b := make([]byte, 1<<16)
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint16(b))
	if _, err := io.ReadFull(c, b[:n]); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(b[:n]); err != nil {
		return err
	}
	m.Response, m.Additionals = true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class,
				TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}})
		}
	}
	answer, err := m.AppendPack(make([]byte, 2))
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
	_, err = c.Write(answer)
	return err
}

// connect returns the certificate that a server shows for a domain.
func (p *pebble) connect(url, domain string) (*x509.Certificate, error) {
	p.mu.Lock()
	cfg := &tls.Config{RootCAs: p.roots, ServerName: domain, NextProtos: []string{"h2"}}
	p.mu.Unlock()
	if domain == "" {
		cfg.InsecureSkipVerify = true // without a name there is nothing to verify
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), cfg)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		return nil, fmt.Errorf("the protocol is %q", got)
	}
	return c.ConnectionState().PeerCertificates[0], nil
}

func (p *pebble) serve(t *testing.T, dir string, log *logtest.Log) string {
	t.Helper()
	a := &httpserver.ACME{Domains: []string{"mcp.example.com", "other.example.com"}, Directory: p.directory, Roots: p.web, Dir: dir,
		Log: slog.New(slog.NewTextHandler(log, nil))}
	url, _ := serve(t, httpserver.Config{TLS: a.Config()})
	return strings.Replace(url, "http://", "https://", 1)
}

func TestCertificatesFromACME(t *testing.T) {
	p, dir := startPebble(t), filepath.Join(t.TempDir(), "acme")
	var log logtest.Log
	url := p.serve(t, dir, &log)
	p.validate(t, url, 3600)
	first, err := p.connect(url, "mcp.example.com")
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	again, err := p.connect(url, "")
	if err != nil || !again.Equal(first) {
		t.Errorf("without a name: %v", err)
	}
	if c, err := p.connect(url, "other.example.com"); err != nil || c.Equal(first) {
		t.Errorf("another domain: %v", err)
	}
	n := p.orders.Load()
	for _, domain := range []string{"evil.example.com", "mcp.example.com.evil.example", "sub.mcp.example.com"} {
		if _, err := p.connect(url, domain); err == nil {
			t.Errorf("a certificate for %s", domain)
		}
	}
	if got := p.orders.Load(); got != n || n == 0 {
		t.Errorf("%d orders before and %d after connections to other domains", n, got)
	}
	if log.String() != "" {
		t.Errorf("the log: %s", &log)
	}

	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
		return err
	})
	if files, _ := os.ReadDir(dir); err != nil || len(files) < 3 {
		t.Errorf("%d files, %v", len(files), err)
	}
	next, err := p.connect(p.serve(t, dir, &log), "mcp.example.com") // after a restart
	if err != nil || !next.Equal(first) || p.orders.Load() != n {
		t.Errorf("after a restart: %v, %d orders", err, p.orders.Load())
	}
}

func TestCertificatesFromACMEAreRenewed(t *testing.T) {
	longtest.SkipSlow(t)
	p := startPebble(t)
	url := p.serve(t, t.TempDir(), &logtest.Log{})
	p.validate(t, url, 24) // renewed when a third is left
	first, err := p.connect(url, "mcp.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for time.Now().Before(first.NotAfter) {
		if c, err := p.connect(url, "mcp.example.com"); err == nil && !c.Equal(first) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("it was not renewed before it expired")
}

// Errors are logged once, and the server continues.
func TestACMEServerIsDown(t *testing.T) {
	p := startPebble(t)
	p.handler = http.NotFoundHandler()
	p.roots = x509.NewCertPool()
	var log logtest.Log
	url := p.serve(t, t.TempDir(), &log)
	for range 3 {
		if _, err := p.connect(url, "mcp.example.com"); err == nil {
			t.Error("a certificate from a CA that does not work")
		}
	}
	if n := strings.Count(log.String(), "no certificate could be obtained"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
}
