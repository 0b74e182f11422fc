package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// desk is a Console whose tokens are TENANT or TENANT/PERSON.
type desk struct {
	t *testing.T
	*Console
	tenants *home.Homes
	clock   time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	tenants, err := home.Open(t.Context(), home.Config{Root: t.TempDir(),
		Approvals: func(id tenant.ID, db *store.DB) (*approval.Store, error) {
			return approval.New(approval.Config{DB: db, Tenant: id, Key: make([]byte, 32)})
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tenants.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &desk{t: t, tenants: tenants, clock: time.Unix(1e9, 0)}
	d.Console = New(Config{Tenants: tenants, Now: func() time.Time { return d.clock },
		Verify: func(_ context.Context, given access.Credentials) (access.Identity, error) {
			uid, _, _ := strings.Cut(given.Token, "/")
			if uid == "down" {
				return access.Identity{}, fault.New(fault.Unavailable, "the provider cannot be reached")
			}
			id, err := tenant.Parse(uid)
			if err != nil {
				return access.Identity{}, fault.Wrap(fault.Denied, errors.New("wrong"), "unknown token")
			}
			return access.Identity{Tenant: id, Scopes: []access.Scope{access.Approve}}, nil
		}})
	return d
}

// signIn returns the status of a login, and the session's cookie.
func (d *desk) signIn(token, from string) (status int, cookie *http.Cookie, header http.Header) {
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, "/approve/0000000000/login",
		strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge > 0 {
			cookie = c
		}
	}
	return w.Code, cookie, w.Header()
}

// isSignedIn reports whether a session continues: the approval does not exist.
func (d *desk) isSignedIn(cookie *http.Cookie) bool {
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, "/approve/0000000000", nil)
	r.AddCookie(cookie)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Code == http.StatusNotFound
}

const somewhere = "192.0.2.1:1000"

// The logins of one person end no session of another, of the same tenant or another one.
func TestManyLoginsEndOnlyOwnSessions(t *testing.T) {
	d := newDesk(t)
	_, alice, _ := d.signIn("alice", somewhere)
	_, colleague, _ := d.signIn("bob/colleague", somewhere)
	var first, last *http.Cookie
	for range tenantSessions + 1 {
		d.clock = d.clock.Add(time.Millisecond)
		if _, last, _ = d.signIn("bob", somewhere); first == nil {
			first = last
		}
	}
	for name, c := range map[string]struct {
		cookie *http.Cookie
		want   bool
	}{"alice": {alice, true}, "bob's colleague": {colleague, true}, "bob's last": {last, true}, "bob's first": {first, false}} {
		if got := d.isSignedIn(c.cookie); got != c.want {
			t.Errorf("%s is signed in: %t", name, got)
		}
	}
	// A person with many tokens ends the oldest of the tenant only.
	for i := range tenantSessions {
		_, last, _ = d.signIn(fmt.Sprintf("bob/%d", i), somewhere)
	}
	if !d.isSignedIn(alice) || !d.isSignedIn(last) || d.isSignedIn(colleague) || len(d.sessions.all) != tenantSessions+1 {
		t.Errorf("alice %t, the last %t, the colleague %t, %d sessions", d.isSignedIn(alice), d.isSignedIn(last), d.isSignedIn(colleague),
			len(d.sessions.all))
	}
	d.clock = d.clock.Add(lifetime)
	d.signIn("bob", somewhere)
	if own := d.sessions.owners; len(own) != 2 || len(d.sessions.all) != 2 { // alice's has expired, and was not asked for
		t.Errorf("after their lifetime there are sessions of %d tenants, and %d in all", len(own), len(d.sessions.all))
	}
}

// A suspended tenant cannot sign in, and is signed out.
func TestSuspendedTenantCannotSignIn(t *testing.T) {
	d := newDesk(t)
	bob, err := tenant.Parse("bob")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.tenants.Create(t.Context(), bob); err != nil {
		t.Fatal(err)
	}
	_, before, _ := d.signIn("bob", somewhere)
	if !d.isSignedIn(before) {
		t.Fatal("not signed in")
	}
	if err := d.tenants.Suspend(bob, "unpaid"); err != nil {
		t.Fatal(err)
	}
	if status, cookie, _ := d.signIn("bob", somewhere); status != http.StatusForbidden || cookie != nil {
		t.Errorf("while suspended: %d, %v", status, cookie)
	}
	if d.isSignedIn(before) {
		t.Error("an earlier session continues")
	}
	if err := d.tenants.Activate(bob); err != nil {
		t.Fatal(err)
	}
	if d.isSignedIn(before) {
		t.Error("the earlier session continues after the tenant was activated")
	}
	if status, cookie, _ := d.signIn("bob", somewhere); status != http.StatusSeeOther || cookie == nil {
		t.Errorf("after the tenant was activated: %d", status)
	}
}

// Wrong tokens make an address wait, and no other one.
func TestWrongTokensAreSlowedDown(t *testing.T) {
	d := newDesk(t)
	for range 2 * freeAttempts {
		if status, _, _ := d.signIn("down", somewhere); status != http.StatusUnauthorized {
			t.Fatal(status)
		}
	}
	for i := range freeAttempts {
		if status, _, _ := d.signIn("wrong token", fmt.Sprintf("192.0.2.1:%d", 1000+i)); status != http.StatusUnauthorized {
			t.Fatal(status)
		}
	}
	for _, token := range []string{"wrong token", "bob"} {
		if status, cookie, header := d.signIn(token, somewhere); status != http.StatusTooManyRequests || cookie != nil ||
			header.Get("Retry-After") == "" {
			t.Errorf("%s: %d, %v", token, status, header)
		}
	}
	if status, _, _ := d.signIn("bob", "192.0.2.2:1000"); status != http.StatusSeeOther {
		t.Errorf("from another address: %d", status)
	}
	d.clock = d.clock.Add(attemptInterval)
	if status, _, _ := d.signIn("bob", somewhere); status != http.StatusSeeOther {
		t.Errorf("after the wait: %d", status)
	}
	if status, _, _ := d.signIn("wrong token", somewhere); status != http.StatusUnauthorized {
		t.Errorf("one more: %d", status)
	}
	if status, _, _ := d.signIn("wrong token", somewhere); status != http.StatusTooManyRequests {
		t.Errorf("two more: %d", status)
	}
	for i := range freeAttempts { // all addresses of an IPv6 host are one
		d.signIn("wrong token", fmt.Sprintf("[2001:db8::%x]:1000", i))
	}
	if status, _, _ := d.signIn("bob", "[2001:db8::ffff]:1000"); status != http.StatusTooManyRequests {
		t.Errorf("from the same network: %d", status)
	}
	for i := range 2 * maxAddresses {
		d.attempts.take(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
	}
	if n := len(d.attempts.all); n > maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}

// Attempts count while their tokens are verified: a burst of parallel ones is no way around the limit.
func TestAttemptsInProgressCount(t *testing.T) {
	a := newAttempts(time.Now)
	for i := range freeAttempts {
		if wait := a.take(somewhere); wait > 0 {
			t.Fatalf("attempt %d waits %s", i, wait)
		}
	}
	for range 1000 {
		if wait := a.take(somewhere); wait <= 0 || wait > attemptInterval {
			t.Fatalf("one more waits %s", wait)
		}
	}
	a.undo(somewhere)
	if wait := a.take(somewhere); wait > 0 {
		t.Errorf("after a right token it waits %s", wait)
	}
}
