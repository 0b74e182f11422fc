package wire

import (
	"context"
	"io"
	"net/http"
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
