package console

import (
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
)

// Limits of sessions.
const (
	lifetime    = 15 * time.Minute
	maxSessions = 1000 // the oldest ends
)

// session is one browser that is signed in. It is immutable.
type session struct {
	token   string // of the caller; "" if a certificate or nothing identifies it
	secret  string // in each form
	expires time.Time
}

// sessions are the sessions by the value of their cookie.
type sessions struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]*session
}

// cookieName is one that browsers accept only over TLS from this host, if there is TLS.
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
		delete(s.all, c.Value)
		return nil
	}
	return found
}

// start creates a session and sets its cookie.
func (s *sessions) start(w http.ResponseWriter, r *http.Request, token string) *session {
	id, begun := rand.Text(), &session{token: token, secret: rand.Text(), expires: s.now().Add(lifetime)}
	s.mu.Lock()
	s.all[id] = begun
	if len(s.all) > maxSessions {
		s.evict()
	}
	s.mu.Unlock()
	s.setCookie(w, r, id, int(lifetime.Seconds()))
	return begun
}

// evict ends the session that expires first. The caller holds the lock.
func (s *sessions) evict() {
	var oldest string
	for id, one := range s.all {
		if oldest == "" || one.expires.Before(s.all[oldest].expires) {
			oldest = id
		}
	}
	delete(s.all, oldest)
}

// end ends the session of a request.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		s.mu.Lock()
		delete(s.all, c.Value)
		s.mu.Unlock()
		s.setCookie(w, r, "", -1)
	}
}

func (s *sessions) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: value, Path: Path, MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
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
	fail := c.cfg.Verify == nil || token == ""
	if !fail {
		who, err := c.cfg.Verify(r.Context(), access.Credentials{Token: token, Chain: chain(r)})
		fail = err != nil || who.Tenant.IsZero()
	}
	if fail {
		c.write(w, http.StatusUnauthorized, page{Title: "Sign in", Login: true, Failed: true, ID: r.PathValue("id")})
		return
	}
	c.sessions.start(w, r, token)
	http.Redirect(w, r, Path+r.PathValue("id"), http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	c.sessions.end(w, r)
	http.Redirect(w, r, Path+r.PathValue("id"), http.StatusSeeOther)
}
