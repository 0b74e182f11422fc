package httpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
)

// echo answers with the length of the body.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, fault.Message(err), http.StatusRequestTimeout)
		return
	}
	fmt.Fprintln(w, n)
})

// serve listens and returns the URL, and what ends it and waits.
func serve(t *testing.T, cfg httpserver.Config) (url string, stop func() error) {
	t.Helper()
	if cfg.MCP == nil {
		cfg.MCP = echo
	}
	s, err := httpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := httpserver.Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	var err2 error
	done := false
	stop = func() error {
		if cancel(); !done {
			done, err2 = true, <-ended
		}
		return err2
	}
	t.Cleanup(func() { _ = stop() })
	return "http://" + ln.Addr().String(), stop
}

func get(t *testing.T, method, url, body string, header ...string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(all)
}

func TestListenRequiresTokenOffLoopback(t *testing.T) {
	for addr, kind := range map[string]fault.Kind{
		"0.0.0.0:0": fault.Denied, ":0": fault.Denied, "[::]:0": fault.Denied,
		"nope": fault.Invalid, "127.0.0.1:99999": fault.Unavailable,
	} {
		ln, err := httpserver.Listen(t.Context(), addr, false)
		if err == nil {
			ln.Close()
		}
		if err == nil || fault.KindOf(err) != kind {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for addr, authenticated := range map[string]bool{"127.0.0.1:0": false, "localhost:0": false, "0.0.0.0:0": true} {
		ln, err := httpserver.Listen(t.Context(), addr, authenticated)
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		ln.Close()
	}
}

func TestPaths(t *testing.T) {
	notReady := errors.New("")
	url, _ := serve(t, httpserver.Config{Ready: func(context.Context) error {
		return fault.Wrap(fault.Unavailable, notReady, "there is no sandbox")
	}})
	for _, tc := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"POST", "/mcp", 200, "5\n"},
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/readyz", 503, "there is no sandbox\n"},
		{"GET", "/", 404, "not found; MCP is at /mcp\n"},
		{"GET", "/sse", 404, "not found; MCP is at /mcp\n"},
		{"POST", "/healthz", 404, "not found; MCP is at /mcp\n"},
	} {
		if status, text := get(t, tc.method, url+tc.path, "hello"); status != tc.status || text != tc.text {
			t.Errorf("%s %s: %d %q", tc.method, tc.path, status, text)
		}
	}
}

func TestCrossOriginRequestsAreRejected(t *testing.T) {
	url, _ := serve(t, httpserver.Config{})
	for name, tc := range map[string]struct {
		header []string
		status int
	}{
		"no browser":       {nil, 200},
		"its own page":     {[]string{"Origin", url}, 200},
		"another's":        {[]string{"Origin", "https://example.com"}, 403},
		"another port":     {[]string{"Origin", "http://127.0.0.1:1"}, 403},
		"a sandboxed page": {[]string{"Origin", "null"}, 403},
		"a link":           {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if status, text := get(t, method, url+"/mcp", "", tc.header...); status != tc.status {
				t.Errorf("%s of %s: %d %s", method, name, status, text)
			}
		}
	}
}

func TestHostNamesAreRejectedOnLoopback(t *testing.T) {
	url, _ := serve(t, httpserver.Config{Events: http.HandlerFunc(echo)})
	for host, status := range map[string]int{"localhost": 200, "127.0.0.1:1": 200, "[::1]": 200, "evil.example": 403,
		"127.0.0.1.evil.example:80": 403} {
		for _, path := range []string{"/mcp", "/sse"} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", path, host)
			if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, fmt.Sprint(status)) {
				t.Errorf("%s for %s: %s", path, host, line)
			}
			conn.Close()
		}
	}
}

func TestServeDrainsAndRejectsNewRequests(t *testing.T) {
	draining, drained := make(chan struct{}), make(chan struct{})
	url, stop := serve(t, httpserver.Config{Grace: time.Hour, Drain: func(context.Context) error {
		close(draining)
		<-drained
		return errors.New("drained")
	}})
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	<-draining
	if status, text := get(t, "POST", url+"/mcp", ""); status != 503 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := get(t, "GET", url+"/readyz", ""); status != 503 {
		t.Errorf("readyz: %d %s", status, text)
	}
	if status, _ := get(t, "GET", url+"/healthz", ""); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	close(drained)
	if err := <-ended; err == nil || err.Error() != "drained" {
		t.Errorf("Serve = %v", err)
	}
}

// A body that arrives slowly is read to its end, though that takes longer than Config.Stalled.
func TestSlowBodyIsRead(t *testing.T) {
	const stalled = 2 * time.Second
	url, _ := serve(t, httpserver.Config{MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}), Stalled: stalled})
	body, feed := io.Pipe()
	go func() {
		defer feed.Close()
		for range 5 {
			_, _ = feed.Write(make([]byte, 256<<10))
			time.Sleep(stalled / 4)
		}
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); string(text) != "1310720 <nil>" {
		t.Errorf("%s %s", res.Status, text)
	}
}

func TestStalledResponseIsAborted(t *testing.T) {
	gaveUp := make(chan error, 1)
	flood := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				gaveUp <- err
				return
			}
		}
	})
	url, _ := serve(t, httpserver.Config{MCP: flood, Stalled: time.Second})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	<-gaveUp
}

func TestStalledBodyIsAborted(t *testing.T) {
	url, _ := serve(t, httpserver.Config{Stalled: time.Second})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nten bytes.")
	status, _ := bufio.NewReader(conn).ReadString('\n')
	if !strings.Contains(status, "408") {
		t.Errorf("got %q", status)
	}
}

// TestResponseMayTakeLongerThanBody: the deadline for the body is not one for
// the work.
func TestResponseMayTakeLongerThanBody(t *testing.T) {
	const stalled = time.Second
	url, _ := serve(t, httpserver.Config{Stalled: stalled, MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(2 * stalled):
			fmt.Fprint(w, "done")
		case <-r.Context().Done():
		}
	})})
	if status, text := get(t, "POST", url+"/mcp", "x"); status != 200 || text != "done" {
		t.Errorf("%d %q", status, text)
	}
}

// Health checks refuse the host of another name on a loopback address, as the rest does, but not an
// address: a page that rebinds a name has its name as host, and probes ask an address.
func TestHealthChecksRefuseForeignHosts(t *testing.T) {
	url, _ := serve(t, httpserver.Config{})
	for host, want := range map[string]int{"": 200, "localhost:1": 200, "127.0.0.1": 200, "10.1.2.3:8080": 200, "[fd00::1]:80": 200,
		"evil.example": 403, "localhost.evil.example:80": 403} {
		for _, path := range []string{"/healthz", "/readyz"} {
			c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s of host %q: %d, want %d", path, host, res.StatusCode, want)
			}
		}
	}
}
