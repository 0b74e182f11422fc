package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

func serveStock(t *testing.T, s *stock, cfg HTTPConfig) *web {
	t.Helper()
	r := s.resources()
	r.Every = time.Millisecond
	server, err := New(Config{Name: "test", Version: "1", Resources: r})
	if err != nil {
		t.Fatal(err)
	}
	h := server.HTTP(cfg)
	srv := httptest.NewServer(h)
	t.Cleanup(func() { h.Close(); srv.CloseClientConnections(); srv.Close() })
	return &web{t: t, http: h, url: srv.URL}
}

// eventReader reads the messages in one response.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
}

func newStream(t *testing.T, res *http.Response) eventReader {
	t.Helper()
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	return eventReader{t, bufio.NewScanner(res.Body)}
}

// next returns the next message, or false at the end.
func (s eventReader) next() (a answer, ok bool) {
	s.t.Helper()
	for s.lines.Scan() {
		if data, is := strings.CutPrefix(s.lines.Text(), "data: "); is && data != "" {
			a.raw = data
			if err := json.Unmarshal([]byte(data), &a); err != nil {
				s.t.Fatalf("%v in %s", err, data)
			}
			return a, true
		}
	}
	return a, false
}

// subscribeFunc subscribes to URIs in one protocol version. It returns the stream of notifications and the headers
// of the connection, if any.
type subscribeFunc func(ctx context.Context, w *web, uris []string, header ...string) (eventReader, []string)

var subscribers = map[string]subscribeFunc{
	"2025-11-25": func(ctx context.Context, w *web, uris []string, header ...string) (eventReader, []string) {
		w.t.Helper()
		connection := w.connect(header...)
		res, err := w.send(ctx, http.MethodGet, "", connection...)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { res.Body.Close() })
		for _, uri := range uris {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, uri)
			if a, ok := newStream(w.t, w.post(ctx, body, connection...)).next(); !ok || a.Error != nil {
				w.t.Fatalf("subscribe: %s", a.raw)
			}
		}
		return newStream(w.t, res), connection
	},
	"2026-07-28": func(ctx context.Context, w *web, uris []string, header ...string) (eventReader, []string) {
		w.t.Helper()
		list, _ := json.Marshal(uris)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":%s},%s}}`, list, modern)
		s := newStream(w.t, w.post(ctx, body, append(header, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method",
			"subscriptions/listen")...))
		if a, _ := s.next(); a.Method != "notifications/subscriptions/acknowledged" {
			w.t.Fatalf("listen: %s", a.raw)
		}
		return s, nil
	},
}

// nextURI returns the URI of the next notification.
func (s eventReader) nextURI() string {
	s.t.Helper()
	a, _ := s.next()
	var p struct{ URI string }
	if a.Method != "notifications/resources/updated" || json.Unmarshal(a.Params, &p) != nil {
		s.t.Fatalf("got %q", a.raw)
	}
	return p.URI
}

func TestNotificationsStayWithTheirCaller(t *testing.T) {
	for version, subscribe := range subscribers {
		t.Run(version, func(t *testing.T) {
			s := newStock()
			w := serveStock(t, s, HTTPConfig{Verify: verify})
			uris := []string{"s:a", "s:b"}
			alice, _ := subscribe(t.Context(), w, uris, "Authorization", "Bearer token-of-alice")
			bob, _ := subscribe(t.Context(), w, uris, "Authorization", "Bearer token-of-bob")
			s.put("alice", "s:a", "new")
			if got := alice.nextURI(); got != "s:a" {
				t.Errorf("alice is notified of %s", got)
			}
			s.put("bob", "s:b", "new")
			if got := bob.nextURI(); got != "s:b" {
				t.Errorf("bob is notified of alice's %s", got)
			}
		})
	}
}

func TestSubscriptionsAreLimitedPerCaller(t *testing.T) {
	s := newStock()
	w := serveStock(t, s, HTTPConfig{Verify: verify})
	var uris []string
	for i := range 100 {
		uris = append(uris, fmt.Sprintf("s:%03d", i))
	}
	listen := subscribers["2026-07-28"]
	alice, bob := []string{"Authorization", "Bearer token-of-alice"}, []string{"Authorization", "Bearer token-of-bob"}
	ctx, leave := context.WithCancel(t.Context())
	for range 10 {
		listen(ctx, w, uris, alice...)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["s:a"]},` +
		modern + `}}`
	res := w.post(t.Context(), body, append(alice, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")...)
	if all, _ := io.ReadAll(res.Body); !strings.Contains(string(all), "1000 subscriptions") {
		t.Errorf("one more: %s", all)
	}
	listen(t.Context(), w, uris[:1], bob...)
	leave()
	// At the end only bob is subscribed.
	for n := -1; n != 1; {
		w.http.subscriptions.mu.Lock()
		n = w.http.subscriptions.callers["alice"] + w.http.subscriptions.callers["bob"]
		w.http.subscriptions.mu.Unlock()
		runtime.Gosched()
	}
	listen(t.Context(), w, uris, alice...)
}

// These tests hang if polling does not stop.
func TestPollingEndsWithClient(t *testing.T) {
	t.Run("2025-11-25", func(t *testing.T) {
		w := serveStock(t, newStock(), HTTPConfig{})
		_, connection := subscribers["2025-11-25"](t.Context(), w, []string{"s:a", "s:b"})
		res, err := w.send(t.Context(), http.MethodDelete, "", connection...)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		w.http.subscriptions.running.Wait()
	})
	t.Run("2026-07-28", func(t *testing.T) {
		w := serveStock(t, newStock(), HTTPConfig{})
		ctx, leave := context.WithCancel(t.Context())
		subscribers["2026-07-28"](ctx, w, []string{"s:a", "s:b"})
		leave()
		w.http.subscriptions.running.Wait()
	})
}

func TestDrainDoesNotWaitForSubscribers(t *testing.T) {
	for version, subscribe := range subscribers {
		t.Run(version, func(t *testing.T) {
			w := serveStock(t, newStock(), HTTPConfig{})
			s, _ := subscribe(t.Context(), w, []string{"s:a"})
			if err := w.http.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if a, ok := s.next(); ok && (version != "2026-07-28" || a.ID != 1.0 || a.Error != nil) {
				t.Errorf("got %s", a.raw)
			}
		})
	}
}
