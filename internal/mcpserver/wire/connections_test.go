package wire

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	alice = []string{"Authorization", "Bearer token-of-alice"}
	bob   = []string{"Authorization", "Bearer token-of-bob"}
)

func (w *web) status(connection []string) int {
	w.t.Helper()
	res, err := w.send(w.t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, connection...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func TestNewConnectionReplacesTheCallersOldest(t *testing.T) {
	w := serveWeb(t, HTTPConfig{Verify: verify, CallerConnections: 2}, whoami)
	ofBob := w.connect(bob...)
	first, second := w.connect(alice...), w.connect(alice...)
	if status := w.status(first); status != http.StatusOK { // which makes the second the longest idle
		t.Fatal(status)
	}
	third := w.connect(alice...)
	for name, c := range map[string]struct {
		connection []string
		want       int
	}{"first": {first, 200}, "second": {second, 404}, "third": {third, 200}, "bob's": {ofBob, 200}} {
		if got := w.status(c.connection); got != c.want {
			t.Errorf("%s connection: status %d, want %d", name, got, c.want)
		}
	}
}

func TestConnectionInUseIsNotReplaced(t *testing.T) {
	run := newEndless()
	w := serveWeb(t, HTTPConfig{Verify: verify, CallerConnections: 1}, run.tool())
	connection := w.connect(alice...)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	w.call(ctx, older(connection), "endless")
	<-run.started
	body, _ := io.ReadAll(w.post(t.Context(), hello, alice...).Body)
	if !strings.Contains(string(body), "connections of this token are in use") {
		t.Errorf("one more: %s", body)
	}
	w.connect(bob...)
	if status := w.status(connection); status != http.StatusOK {
		t.Errorf("the connection in use: %d", status)
	}
}

func TestOpenRequestsPerCallerAreLimited(t *testing.T) {
	run := newEndless()
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{run.tool(), whoami}})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{Verify: verify, CallerRequests: 2, Return: time.Millisecond}))
	events := serveEvents(t, w.http)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	w.call(ctx, older(w.connect(alice...)), "endless")
	<-run.started
	stream := dialEvents(t, ctx, events, "token-of-bob") // counts towards the limit of bob
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, events, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(alice[0], alice[1])
	second, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Body.Close()
	res := w.call(t.Context(), today("whoami"), "whoami", alice...)
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("a third request: %s %s", res.Status, body)
	}
	res = w.call(t.Context(), today("whoami"), "whoami", bob...)
	if got := w.text(res); got != "bob" {
		t.Errorf("bob is answered %q", got)
	}
	_, _ = io.Copy(io.Discard, res.Body) // until it is no longer counted
	stream.must(protocol{}.callOf("whoami"), "token-of-bob")
	leave()
	<-run.ended
	for { // until the ends are noticed
		res := w.call(t.Context(), today("whoami"), "whoami", alice...)
		if res.StatusCode == http.StatusOK {
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
	}
}

// A client that has left without ending its connection leaves no goroutines for long, while one with an
// open stream keeps its connection.
func TestAbandonedConnectionIsClosed(t *testing.T) {
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{whoami}})
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP(HTTPConfig{Verify: verify, Absence: time.Second})
	w := serveWebOf(t, h)
	sessions := func() (n int) {
		for range h.server.Sessions() {
			n++
		}
		return n
	}
	waitFor := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); sessions() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d connections, want %d", sessions(), want)
			}
		}
	}
	present := w.connect(alice...)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := w.send(ctx, http.MethodGet, "", present...)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	defer r.Body.Close()
	waitFor(1)
	goroutines := func() int { // of the SDK; others serve idle network connections
		stacks := make([]byte, 8<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by github.com/modelcontextprotocol/go-sdk")
	}
	before := goroutines()
	var gone []string
	for range 50 {
		gone = w.connect(bob...)
	}
	waitFor(1)
	for end := time.Now().Add(time.Minute); goroutines() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", goroutines(), before)
		}
	}
	if got, want := []int{w.status(present), w.status(gone)}, []int{200, 404}; !slices.Equal(got, want) {
		t.Errorf("status %d, want %d", got, want)
	}
	leave()
	waitFor(0)
}

// A connection that is chosen to be closed is not used any more: its client is told to connect again.
func TestConnectionIsNotUsedWhileItIsClosed(t *testing.T) {
	for name, closeOne := range map[string]func(*HTTP, *connection, *web){
		"absent":   func(h *HTTP, c *connection, _ *web) { h.owned.closeAbsent(c) },
		"replaced": func(_ *HTTP, _ *connection, w *web) { w.connect(bob...) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{whoami}})
			if err != nil {
				t.Fatal(err)
			}
			h := s.HTTP(HTTPConfig{Verify: verify, CallerConnections: 1})
			w := serveWebOf(t, h)
			header := w.connect(bob...)
			var of *connection
			for _, of = range h.owned.byID {
			}
			dismiss, status := h.owned.dismiss, 0
			h.owned.dismiss = func(id string) { // after the choice
				res, err := w.send(t.Context(), http.MethodPost, protocol{}.callOf("whoami"), header...)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				status = res.StatusCode
				dismiss(id)
			}
			closeOne(h, of, w)
			if status != http.StatusNotFound {
				t.Errorf("a call over the connection: %d", status)
			}
		})
	}
}
