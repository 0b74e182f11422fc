package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// encrypted is a daemon with TLS and client certificates.
type encrypted struct {
	*daemonProcess
	servers, clients *accesstest.CA
	clientCA         string // file
}

func serveEncrypted(t *testing.T, more string) encrypted {
	t.Helper()
	dir := t.TempDir()
	e := encrypted{servers: accesstest.NewCA(t, "servers"), clients: accesstest.NewCA(t, "clients"),
		clientCA: filepath.Join(dir, "clients.pem")}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	accesstest.Write(t, e.servers.Server(nil), cert, key)
	accesstest.Replace(t, e.clientCA, accesstest.PEM(e.clients.Cert))
	e.daemonProcess = startServing(t, "", fmt.Sprintf("http: {sse: true, %s tls: {cert: %s, key: %s, client_ca: %s, client_field: "+
		"subject.cn}}", more, cert, key, e.clientCA))
	return e
}

// with returns a client with a certificate, or without one.
func (e encrypted) with(t *testing.T, cert *tls.Certificate) *http.Client {
	t.Helper()
	cfg := &tls.Config{RootCAs: e.servers.Pool()}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask sends a request of any transport and returns its status and the first 10 kB of the answer.
func (e encrypted) ask(client *http.Client, method, path, body string, header ...string) (status int, text string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	v := &visitor{daemonProcess: e.daemonProcess, header: header}
	r, err := v.request(ctx, method, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	r.URL.Path = path
	res, err := client.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && method == http.MethodGet {
		return res.StatusCode, "" // a stream
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, 10<<10))
	if err != nil {
		e.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// run runs code for a client of 2026-07-28.
func (e encrypted) run(client *http.Client, code string, header ...string) (status int, text string) {
	e.t.Helper()
	return e.ask(client, http.MethodPost, "/mcp", fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":%q},%s}}`, code, aboutClient),
		append(header, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "execute_code")...)
}

const clientHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestClientCertificatesIdentifyTenants(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	e := serveEncrypted(t, "")
	upper, lower := e.clients.Named("customer_A"), e.clients.Named("customer_a")
	a, b := e.with(t, &upper), e.with(t, &lower)
	if status, text := e.run(a, "open('a.txt','w').write('of A')"); status != http.StatusOK || !strings.Contains(text, `\"result\":4`) {
		t.Fatal(status, text)
	}
	if _, text := e.run(a, "open('a.txt').read()"); !strings.Contains(text, "of A") {
		t.Error(text)
	}
	if _, text := e.run(b, "__import__('os').path.exists('a.txt')"); !strings.Contains(text, `\"result\":false`) {
		t.Errorf("customer_a sees files of customer_A: %s", text)
	}

	// A resumed TLS session, in which the client does not send its certificate again, is of the same tenant.
	resumed := e.with(t, &upper)
	resumed.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		res, err := resumed.Get("https://" + e.addr + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.TLS.DidResume != (i == 1) {
			t.Errorf("connection %d: resumed %t", i, res.TLS.DidResume)
		}
		if i == 0 {
			resumed.CloseIdleConnections()
		}
	}
	if _, text := e.run(resumed, "open('a.txt').read()"); !strings.Contains(text, "of A") {
		t.Errorf("in a resumed session: %s", text)
	}

	other := accesstest.NewCA(t, "clients").Named("customer_A")
	expired := e.clients.Client(func(c *x509.Certificate) {
		c.Subject.CommonName, c.NotAfter = "customer_A", time.Now().Add(-time.Minute)
	})
	server := e.clients.Server(func(c *x509.Certificate) { c.Subject.CommonName = "customer_A" })
	invalid, unnamed := e.clients.Named("../customer_A"), e.clients.Client(nil)
	for name, tc := range map[string]struct {
		cert   *tls.Certificate
		reason string
	}{
		"none":             {nil, "no bearer token"},
		"another CA":       {&other, "not issued by an accepted CA"},
		"expired":          {&expired, "has expired"},
		"of a server":      {&server, "not for the authentication of clients"},
		"an invalid uid":   {&invalid, "valid customer uid"},
		"without the name": {&unnamed, "exactly one customer"},
	} {
		client := e.with(t, tc.cert)
		for transport, ask := range map[string]func() (int, string){
			"2026-07-28":   func() (int, string) { return e.run(client, "1") },
			"2025-11-25":   func() (int, string) { return e.ask(client, http.MethodPost, "/mcp", clientHello) },
			"2024-11-05":   func() (int, string) { return e.ask(client, http.MethodGet, "/sse", "") },
			"with a token": func() (int, string) { return e.run(client, "1", "Authorization", "Bearer none") },
		} {
			status, text := ask()
			want := tc.reason
			if transport == "with a token" && tc.cert == nil {
				want = "a client certificate is required"
			}
			if status != http.StatusUnauthorized || !strings.Contains(text, want) || strings.Contains(text, "ustomer_A") {
				t.Errorf("%s, %s: %d %s", name, transport, status, text)
			}
		}
		if status, text := e.ask(client, http.MethodGet, "/healthz", ""); status != http.StatusOK {
			t.Errorf("%s: healthz answers %d %s", name, status, text)
		}
	}
	if status, text := e.run(a, "1", "Authorization", "Bearer none"); status != http.StatusUnauthorized || !strings.Contains(text,
		"unknown token") {
		t.Errorf("an unknown token and a valid certificate: %d %s", status, text)
	}
	for range 100 { // written within a second
		if strings.Contains(e.command(t, "audit", "tail", "--json"), `"refused"`) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("no refusal in the audit log")
}

// A token and a certificate of one request must identify the same tenant.
func TestTokenAndCertificateMustAgree(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	for _, optional := range []bool{false, true} {
		e := serveEncrypted(t, "tokens: {customer_A: token-of-customer-A, customer_B: token-of-customer-B},")
		if optional {
			dir := filepath.Dir(e.clientCA)
			e.daemonProcess = startServing(t, "", fmt.Sprintf(
				"http: {tokens: {customer_A: token-of-customer-A, customer_B: token-of-customer-B}, tls: {cert: %s/cert.pem, key: "+
					"%[1]s/key.pem, client_ca: %[1]s/clients.pem, client_field: subject.cn, client_scopes: [files], "+
					"client_optional: true}}", dir))
		}
		named := e.clients.Named("customer_A")
		a, none := e.with(t, &named), e.with(t, nil)
		tokenA, tokenB := []string{"Authorization", "Bearer token-of-customer-A"}, []string{"Authorization", "Bearer token-of-customer-B"}
		check := func(name string, client *http.Client, header []string, want int, contains string) {
			t.Helper()
			if status, text := e.run(client, "6*7", header...); status != want || !strings.Contains(text, contains) {
				t.Errorf("optional %t, %s: %d %s", optional, name, status, text)
			}
		}
		check("another customer's token", a, tokenB, 401, "different customers")
		if optional {
			check("token", none, tokenA, 200, "42")
			check("both, without the scope of both", a, tokenA, 403, "does not have the scope")
			check("certificate without the scope", a, nil, 403, "does not have the scope")
			check("neither", none, nil, 401, "no bearer token")
		} else {
			check("both", a, tokenA, 200, "42")
			check("certificate", a, nil, 200, "42")
			check("token", none, tokenA, 401, "a client certificate is required")
		}
	}
}

// A CA that is removed from the file is refused on connections that exist, and ends streams.
func TestRemovedCAIsRefusedOnOpenConnections(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	e := serveEncrypted(t, "")
	named := e.clients.Named("customer_A")
	client := e.with(t, &named)
	if status, text := e.run(client, "1"); status != http.StatusOK {
		t.Fatal(status, text)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+e.addr+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "event: endpoint") {
		t.Fatal(line, err)
	}
	next := accesstest.NewCA(t, "clients")
	accesstest.Replace(t, e.clientCA, accesstest.PEM(next.Cert))
	for status := http.StatusOK; status == http.StatusOK; {
		var text string
		if status, text = e.run(client, "1"); status == http.StatusUnauthorized && !strings.Contains(text, "not issued by an accepted CA") {
			t.Error(text)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil { // until it is verified again
		t.Logf("the stream ended with %v", err)
	}
	renewed := next.Named("customer_A")
	if status, text := e.run(e.with(t, &renewed), "6*7"); status != http.StatusOK || !strings.Contains(text, "42") {
		t.Error(status, text)
	}
}

// A connection does not outlive its certificate.
func TestCertificateThatExpiresIsRefusedOnItsConnection(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	e := serveEncrypted(t, "")
	until := time.Now().Add(5 * time.Second)
	short := e.clients.Client(func(c *x509.Certificate) { c.Subject.CommonName, c.NotAfter = "customer_A", until })
	client := e.with(t, &short)
	if status, text := e.run(client, "1"); status != http.StatusOK {
		t.Fatal(status, text)
	}
	time.Sleep(time.Until(until.Add(time.Second)))
	if status, text := e.run(client, "1"); status != http.StatusUnauthorized || !strings.Contains(text, "has expired") {
		t.Error(status, text)
	}
}
