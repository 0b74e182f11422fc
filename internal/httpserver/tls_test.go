package httpserver_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
)

// secure is a server with a certificate in files.
type secure struct {
	ca             *accesstest.CA
	url, cert, key string
}

func serveTLS(t *testing.T, cfg httpserver.Config) secure {
	t.Helper()
	dir := t.TempDir()
	s := secure{ca: accesstest.NewCA(t, "servers"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	accesstest.Write(t, s.ca.Server(nil), s.cert, s.key)
	c, err := httpserver.OpenCertificate(s.cert, s.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.TLS = &tls.Config{GetCertificate: c.Get}
	url, _ := serve(t, cfg)
	s.url = strings.Replace(url, "http://", "https://", 1)
	return s
}

// client returns a client with connections of its own.
func (s secure) client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool()}, ForceAttemptHTTP2: http2}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ticking sends a line at once, and another for each value of next.
func ticking(next <-chan time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := w.(http.Flusher)
		for {
			fmt.Fprintln(w, "tick")
			flush.Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
}

// A stream lives longer than a stalled write may take, and than a certificate in the files.
func TestStreamsOutliveQuietTimesAndCertificates(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", http2), func(t *testing.T) {
			next := make(chan time.Duration)
			s := serveTLS(t, httpserver.Config{MCP: ticking(next), Stalled: 50 * time.Millisecond})
			client := s.client(t, http2)
			res, err := client.Get(s.url + "/mcp")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got := res.ProtoMajor == 2; got != http2 {
				t.Fatal(res.Proto)
			}
			first := res.TLS.PeerCertificates[0]
			line := func() string {
				b := make([]byte, len("tick\n"))
				if _, err := io.ReadFull(res.Body, b); err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			line()
			accesstest.Write(t, s.ca.Server(nil), s.cert, s.key)
			for range 100 { // a second for the next read of the files
				other, err := s.client(t, http2).Get(s.url + "/healthz")
				if err != nil {
					t.Fatal(err)
				}
				other.Body.Close()
				if !other.TLS.PeerCertificates[0].Equal(first) {
					select {
					case next <- 0:
						line()
					case <-time.After(10 * time.Second):
						t.Error("the stream has ended")
					}
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Error("the certificate in the files is not used")
		})
	}
}

// A client of HTTP/2 that reads nothing keeps no handler.
func TestStalledReadersAreCutOff(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter) error{
		"many writes": func(w http.ResponseWriter) (err error) {
			for err == nil {
				_, err = w.Write(make([]byte, 64<<10))
			}
			return err
		},
		"what is sent last": func(w http.ResponseWriter) error {
			_, err := w.Write(make([]byte, 2<<10))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			returned := make(chan struct{}, 1)
			s := serveTLS(t, httpserver.Config{Stalled: 50 * time.Millisecond,
				MCP: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_ = write(w)
					returned <- struct{}{}
				})})
			client := s.client(t, true)
			for range 40 { // one more than the window of the connection allows
				res, err := client.Get(s.url + "/mcp")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				<-returned
				if name == "many writes" {
					break
				}
			}
		})
	}
}

// Requests on one connection keep it from being evicted until the last has ended.
func TestConnectionWithAnyRequestIsNotEvicted(t *testing.T) {
	slow, release := make(chan struct{}), make(chan struct{})
	s := serveTLS(t, httpserver.Config{Connections: 1, MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "slow" {
			slow <- struct{}{}
			<-release
		}
		fmt.Fprintln(w, "done")
	})})
	client := s.client(t, true)
	answer := make(chan error, 1)
	go func() {
		res, err := client.Get(s.url + "/mcp?slow")
		if err == nil {
			_, err = io.ReadAll(res.Body)
			err = errors.Join(err, res.Body.Close())
		}
		answer <- err
	}()
	<-slow
	for range 3 {
		res, err := client.Get(s.url + "/mcp")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(res.Body)
		res.Body.Close()
	}
	other, err := s.client(t, true).Get(s.url + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	other.Body.Close()
	if other.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("another connection is answered %s", other.Status)
	}
	close(release)
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

func TestHandshake(t *testing.T) {
	s := serveTLS(t, httpserver.Config{Headers: 50 * time.Millisecond})
	addr := strings.TrimPrefix(s.url, "https://")
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err == nil {
			c.Close()
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := io.ReadAll(silent); err != nil { // until the server closes it
		t.Error(err)
	}
	res, err := http.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: %s", res.Status)
	}
}

func TestOpenCertificateNamesTheProblem(t *testing.T) {
	ca := accesstest.NewCA(t, "servers")
	one, other := ca.Server(nil), ca.Server(nil)
	key := accesstest.KeyPEM(t, one)
	for name, tc := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"another key": {accesstest.PEM(one.Leaf), accesstest.KeyPEM(t, other), "does not belong to the first certificate"},
		"wrong order": {accesstest.PEM(ca.Cert, one.Leaf), key, "does not belong to the first certificate"},
		"swapped":     {key, accesstest.PEM(one.Leaf), "contains no certificate"},
		"empty":       {nil, nil, "contains no certificate"},
		"no key":      {accesstest.PEM(one.Leaf), []byte("x"), "contains no private key"},
		"encrypted key": {accesstest.PEM(one.Leaf), []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE " +
			"KEY-----\n"), "encrypted with a passphrase"},
		"damaged":           {append(accesstest.PEM(one.Leaf)[:200], '\n'), key, "contains no certificate"},
		"damaged inside":    {[]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), key, "cannot be used"},
		"missing":           {nil, key, "no such file"},
		"huge":              {bytes.Repeat([]byte("a"), 5<<20), key, "at most 4 MiB"},
		"a directory":       {nil, key, "is not a file"},
		"of no permissions": {accesstest.PEM(one.Leaf), key, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cert, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
			accesstest.Replace(t, keyFile, tc.key)
			switch name {
			case "missing":
			case "a directory":
				cert = dir
			case "of no permissions":
				if os.Getuid() == 0 {
					t.Skip("root may read every file")
				}
				accesstest.Replace(t, cert, tc.cert)
				if err := os.Chmod(keyFile, 0); err != nil {
					t.Fatal(err)
				}
			default:
				accesstest.Replace(t, cert, tc.cert)
			}
			_, err := httpserver.OpenCertificate(cert, keyFile, nil)
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), tc.want) || !strings.Contains(fault.Message(err),
				dir) {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY-----") {
				t.Error("the error contains the key")
			}
		})
	}
}

// Files that are replaced by invalid ones leave the certificate in use, and empty the list of CAs.
func TestReplacedFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key, clients := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "clients.pem")
	ca := accesstest.NewCA(t, "clients")
	accesstest.Write(t, ca.Server(nil), cert, key)
	accesstest.Replace(t, clients, accesstest.PEM(ca.Cert))
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		pair, err := httpserver.OpenCertificate(cert, key, logger)
		if err != nil {
			t.Fatal(err)
		}
		roots, err := httpserver.OpenRoots(clients, logger)
		if err != nil {
			t.Fatal(err)
		}
		leaf := func() *x509.Certificate {
			time.Sleep(time.Second)
			c, err := pair.Get(nil)
			if err != nil {
				t.Fatal(err)
			}
			return c.Leaf
		}
		first := leaf()
		second := ca.Server(nil)
		accesstest.Replace(t, cert, accesstest.PEM(second.Leaf)) // and not yet the key
		for range 10 {
			if !leaf().Equal(first) {
				t.Fatal("a certificate is used without its key")
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors:\n%s", n, &log)
		}
		accesstest.Replace(t, key, accesstest.KeyPEM(t, second))
		if !leaf().Equal(second.Leaf) {
			t.Error("the new certificate is not used")
		}
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		if !leaf().Equal(second.Leaf) {
			t.Error("the certificate is not used without its file")
		}

		empty := x509.NewCertPool()
		for name, change := range map[string]func(){
			"invalid": func() { accesstest.Replace(t, clients, []byte("x")) },
			"empty":   func() { accesstest.Replace(t, clients, nil) },
			"removed": func() { _ = os.Remove(clients) },
		} {
			change()
			for range 2 {
				time.Sleep(time.Second)
				if !roots.Pool().Equal(empty) {
					t.Errorf("%s: CAs are accepted", name)
				}
			}
			accesstest.Replace(t, clients, accesstest.PEM(ca.Cert))
			time.Sleep(time.Second)
			if !roots.Pool().Equal(ca.Pool()) {
				t.Errorf("%s, and restored: the CA is not accepted", name)
			}
		}
	})
}

func TestExpiredCertificateIsAWarning(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca := accesstest.NewCA(t, "servers")
	for want, until := range map[string]time.Time{"has expired": time.Now().Add(-time.Hour), "expires soon": time.Now().Add(time.Hour),
		"": time.Now().AddDate(0, 1, 0)} {
		accesstest.Write(t, ca.Server(func(c *x509.Certificate) { c.NotAfter = until }), cert, key)
		var log bytes.Buffer
		if _, err := httpserver.OpenCertificate(cert, key, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), want) || want == "" && log.Len() > 0 {
			t.Errorf("until %s: %s", until, &log)
		}
	}
}

// A connection may be quiet for longer than a write may take.
func TestKeptConnectionsServeLaterRequests(t *testing.T) {
	s := serveTLS(t, httpserver.Config{Stalled: 10 * time.Millisecond})
	plain, _ := serve(t, httpserver.Config{Stalled: 10 * time.Millisecond})
	for url, client := range map[string]*http.Client{s.url: s.client(t, true), s.url + "?": s.client(t, false),
		plain: {Transport: &http.Transport{}}} {
		url = strings.TrimSuffix(url, "?")
		for _, path := range []string{"/mcp", "/healthz", "/mcp"} {
			res, err := client.Post(url+path, "", strings.NewReader("hello"))
			if err != nil {
				t.Fatalf("%s%s: %v", url, path, err)
			}
			_, _ = io.ReadAll(res.Body)
			res.Body.Close()
			time.Sleep(30 * time.Millisecond)
		}
	}
}
