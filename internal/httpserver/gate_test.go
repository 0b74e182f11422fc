package httpserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
)

// dial opens a connection that sends no more than what is given.
func dial(t *testing.T, url, sent string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, sent); err != nil {
		t.Fatal(err)
	}
	return c
}

// fresh sends a request over a connection of its own.
func fresh(t *testing.T, method, url string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(all)
}

// hanging is a handler that says when it has a request and keeps it.
func hanging(t *testing.T) (h http.Handler, entered chan struct{}) {
	entered, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}), entered
}

func TestIdleConnectionsAreEvicted(t *testing.T) {
	const request = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
	for name, tc := range map[string]struct {
		cfg  httpserver.Config
		sent string
	}{
		"silent, one address":  {httpserver.Config{AddressConnections: 4}, ""},
		"silent, all":          {httpserver.Config{Connections: 4}, ""},
		"part of a header":     {httpserver.Config{Connections: 4}, "GET /mcp HTTP/1.1\r\nX"},
		"kept alive after one": {httpserver.Config{Connections: 4}, request},
		"a body that never comes": {httpserver.Config{Connections: 4, MCP: http.HandlerFunc(unauthorized)},
			"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"},
		"the reserve of healthz":   {httpserver.Config{Connections: 4}, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		"descriptors of a process": {httpserver.Config{Descriptors: 3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Headers, tc.cfg.Stalled = time.Hour, time.Hour
			url, _ := serve(t, tc.cfg)
			var first net.Conn
			for range 100 {
				c := dial(t, url, tc.sent)
				if first == nil {
					first = c
				}
			}
			for _, path := range []string{"/healthz", "/mcp"} {
				status, text := fresh(t, map[bool]string{true: "POST", false: "GET"}[path == "/mcp"], url+path)
				if path == "/mcp" && (tc.cfg.MCP != nil || tc.cfg.Descriptors > 0) {
					continue
				}
				for path == "/mcp" && status == http.StatusServiceUnavailable { // the last of the requests are still answered
					status, text = fresh(t, "POST", url+path)
				}
				if status != http.StatusOK {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
			if _, err := io.Copy(io.Discard, first); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("the oldest connection is open: %v", err)
			}
		})
	}
}

func unauthorized(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }

func TestHealthAnswersWhileAllConnectionsAreInUse(t *testing.T) {
	for name, cfg := range map[string]httpserver.Config{
		"all":         {Connections: 2},
		"one address": {AddressConnections: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h, entered := hanging(t)
			cfg.MCP = h
			url, _ := serve(t, cfg)
			for range 2 {
				dial(t, url, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
				<-entered
			}
			for range 100 { // which compete for the reserve
				dial(t, url, "")
			}
			for _, path := range []string{"/healthz", "/readyz"} {
				if status, text := fresh(t, "GET", url+path); status != http.StatusOK {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
			if status, text := fresh(t, "POST", url+"/mcp"); status != http.StatusServiceUnavailable || !strings.Contains(text,
				"too many connections") {
				t.Errorf("/mcp: %d %s", status, text)
			}
		})
	}
}

func TestConnectionsReserveDescriptors(t *testing.T) {
	h, _ := hanging(t)
	url, _ := serve(t, httpserver.Config{MCP: h, Descriptors: 1})
	if status, text := fresh(t, "POST", url+"/mcp"); status != http.StatusServiceUnavailable {
		t.Errorf("/mcp: %d %s", status, text)
	}
	if status, text := fresh(t, "GET", url+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, text)
	}
}

func TestConnectionWithoutHeadersIsClosed(t *testing.T) {
	url, _ := serve(t, httpserver.Config{Headers: 10 * time.Millisecond, Stalled: time.Hour})
	for _, sent := range []string{"", "GET /healthz HTTP/1.1\r\nX-A: b\r\n"} {
		line, err := bufio.NewReader(dial(t, url, sent)).ReadString('\n')
		if err == nil && !strings.Contains(line, "408") {
			t.Errorf("after %q: %q", sent, line)
		}
	}
}

// A connection that ends gives its place back, whatever it was doing.
func TestClosedConnectionsAreNotCounted(t *testing.T) {
	url, _ := serve(t, httpserver.Config{Connections: 2, AddressConnections: 2})
	for i := range 50 {
		if status, text := fresh(t, "POST", url+"/mcp"); status != http.StatusOK {
			t.Fatalf("request %d: %d %s", i, status, text)
		}
		fmt.Fprint(dial(t, url, ""), "GET /mcp")
	}
}
