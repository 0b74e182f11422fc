package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
)

// The Python SDK logs in to a daemon with the minimal configuration of a provider: it asks for no scope that it
// does not need, and adds one on demand, in the same connection.
func TestPythonLogsIn(t *testing.T) {
	t.Parallel()
	python := pythonSDK(t)
	needSandbox(t)
	at := accesstest.Start(t)
	proxy := httptest.NewUnstartedServer(nil) // its URL is known before the daemon starts
	resource := "http://" + proxy.Listener.Addr().String() + "/mcp"
	at.TokenFor(resource, 0, "customer_A", "") // tokens are for the resource from now on
	d := startServing(t, build(t), fmt.Sprintf("http: {oidc: {issuer: %q, resource: %q}}", at.URL, resource))
	proxy.Config.Handler = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: d.addr})
	proxy.Start()
	t.Cleanup(proxy.Close)
	for _, mode := range []string{"legacy", "2026-07-28"} {
		const want = `{"result": 42, "wrote": true, "again": "a", "scopes": ["execute", "execute files"]}`
		if diff := cmp.Diff(want, runPython(t, python, "python_login.py", resource, mode, at.URL)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}

	fixed := startServing(t, build(t), "http: {token: "+webToken+"}\n")
	const advice = "this server has no OAuth login: configure the client to send the header Authorization: Bearer TOKEN, with a token or " +
		"API key that its operator issues"
	if got := runPython(t, python, "python_login.py", fixed.url, "legacy"); !strings.HasPrefix(got, `{"failed": [`) ||
		!strings.Contains(got, advice) {
		t.Errorf("with fixed tokens: %s", got)
	}
}

// A web page may read the server's metadata, with the header that MCP's clients add.
func TestMetadataAllowsThePreflight(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", `http: {oidc: {issuer: "http://127.0.0.1:1", resource: "https://mcp.example/mcp"}}`)
	for _, path := range []string{"", "/mcp"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://"+d.addr+"/.well-known/oauth-protected-resource"+path,
			nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "https://inspector.example")
		r.Header.Set("Access-Control-Request-Method", "GET")
		r.Header.Set("Access-Control-Request-Headers", "mcp-protocol-version")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if h := res.Header; res.StatusCode != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "*" ||
			h.Get("Access-Control-Allow-Headers") != "Content-Type, MCP-Protocol-Version" {
			t.Errorf("%s: %s, %v", path, res.Status, h)
		}
	}
}
