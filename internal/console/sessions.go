package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Limits of sessions: of one token or certificate, which is a person's, and of one tenant. Beyond them
// the oldest of the same person or tenant ends.
const (
	lifetime       = 15 * time.Minute
	loginSessions  = 100
	tenantSessions = 1000
)

// session is one browser that is signed in. It is immutable.
type session struct {
	token   string // of the caller; "" if a certificate or nothing identifies it
	secret  string // in each form
	expires time.Time
	owner   tenant.ID
	login   [sha256.Size]byte // hash of the token or certificate
}

// sessions are the sessions by the value of their cookie.
type sessions struct {
	now func() time.Time

	mu     sync.Mutex
	all    map[string]*session
	owners map[tenant.ID][]string // the cookies of a tenant, the oldest first
}

func newSessions(now func() time.Time) sessions {
	return sessions{now: now, all: map[string]*session{}, owners: map[tenant.ID][]string{}}
}

// cookieName is one that browsers accept only over TLS, if there is TLS. They send the cookie to each
// port of the host.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Secure-sandpiper-approve"
	}
	return "sandpiper-approve"
}

func (s *sessions) find(r *http.Request) *session {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[c.Value]
	if found != nil && !found.expires.After(s.now()) {
		s.remove(c.Value)
		return nil
	}
	return found
}

// start creates a session and sets its cookie.
func (s *sessions) start(w http.ResponseWriter, r *http.Request, owner tenant.ID, token string) *session {
	id, begun := rand.Text(), &session{token: token, secret: rand.Text(), expires: s.now().Add(lifetime), owner: owner,
		login: loginOf(r, token)}
	s.mu.Lock()
	s.makeRoom(begun)
	s.all[id] = begun
	s.owners[owner] = append(s.owners[owner], id)
	s.mu.Unlock()
	s.setCookie(w, r, id, int(lifetime.Seconds()))
	return begun
}

// loginOf returns what identifies the person of a session.
func loginOf(r *http.Request, token string) [sha256.Size]byte {
	if certs := chain(r); token == "" && len(certs) > 0 {
		return sha256.Sum256(certs[0].Raw)
	}
	return sha256.Sum256([]byte(token))
}

// makeRoom ends the expired sessions of a tenant, and those that exceed the limits with one more. The
// caller holds the lock.
func (s *sessions) makeRoom(more *session) {
	var same []string // of the same person
	for _, id := range slices.Clone(s.owners[more.owner]) {
		switch one := s.all[id]; {
		case !one.expires.After(s.now()):
			s.remove(id)
		case one.login == more.login:
			same = append(same, id)
		}
	}
	if len(same) >= loginSessions {
		s.remove(same[0])
	}
	if own := s.owners[more.owner]; len(own) >= tenantSessions {
		s.remove(own[0])
	}
}

// remove ends a session. The caller holds the lock.
func (s *sessions) remove(id string) {
	gone := s.all[id]
	if gone == nil {
		return
	}
	delete(s.all, id)
	own := s.owners[gone.owner]
	if own = slices.DeleteFunc(own, func(other string) bool { return other == id }); len(own) == 0 {
		delete(s.owners, gone.owner)
		return
	}
	s.owners[gone.owner] = own
}

// end ends the session of a request.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		s.mu.Lock()
		s.remove(c.Value)
		s.mu.Unlock()
		s.setCookie(w, r, "", -1)
	}
}

func (s *sessions) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name:     cookieName(r),
		Value:    value,
		Path:     Path,
		MaxAge:   age,
		HttpOnly: true,
		Secure:   r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	})
}

// chain returns the certificates of the caller.
func chain(r *http.Request) []*x509.Certificate {
	if r.TLS == nil {
		return nil
	}
	return r.TLS.PeerCertificates
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	c.sessions.end(w, r)
	token := strings.TrimSpace(r.PostFormValue("token"))
	if c.cfg.Verify == nil || token == "" {
		c.write(w, http.StatusUnauthorized, page{Title: "Sign in", Login: true, Failed: true, ID: r.PathValue("id")})
		return
	}
	if wait := c.attempts.take(r.RemoteAddr); wait > 0 {
		seconds := int(wait/time.Second) + 1
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		c.message(w, http.StatusTooManyRequests, "Too many wrong tokens from this address",
			fmt.Sprintf("Try again in %d seconds.", seconds))
		return
	}
	who, err := c.cfg.Verify(r.Context(), access.Credentials{Token: token, Chain: chain(r)})
	// or the provider cannot be reached
	if wrong := err != nil || who.Tenant.IsZero(); !wrong || err != nil && fault.KindOf(err) != fault.Denied {
		c.attempts.undo(r.RemoteAddr)
	}
	if err != nil || who.Tenant.IsZero() {
		c.write(w, http.StatusUnauthorized, page{Title: "Sign in", Login: true, Failed: true, ID: r.PathValue("id")})
		return
	}
	if c.refusesSuspended(w, r, who.Tenant) {
		return
	}
	c.sessions.start(w, r, who.Tenant, token)
	http.Redirect(w, r, Path+r.PathValue("id"), http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	c.sessions.end(w, r)
	http.Redirect(w, r, Path+r.PathValue("id"), http.StatusSeeOther)
}
