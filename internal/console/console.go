// Package console serves web pages of the daemon to persons. Today there is one: it shows a call
// that waits for approval, with all values, and takes the answer.
//
// A person signs in with the token that identifies the tenant elsewhere. The session that replaces
// it in the browser lasts minutes, is only in memory, and verifies the token again with each
// request. Pages have no scripts, cannot be framed and are not cached; forms contain a secret of
// the session. Without a session the answer is the same for each id, and an id of another tenant
// is one that does not exist.
//
// A Console is safe for concurrent use. It decides on no call: see package approval.
package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Config of a Console.
type Config struct {
	// Verify returns the identity of a caller; nil means that each one is Tenant.
	Verify  func(context.Context, access.Credentials) (access.Identity, error)
	Tenant  tenant.ID                     // required without Verify
	Tenants *home.Homes                   // required
	Gate    func(*home.Home) *redact.Gate // records what is shown. Required
	Now     func() time.Time              // nil means time.Now
	Log     *slog.Logger                  // nil means discard
}

// Console is the handler of all pages.
type Console struct {
	cfg      Config
	sessions sessions
	attempts attempts
	mux      *http.ServeMux
}

// Path is the prefix of the paths of all pages.
const Path = "/approve/"

// New returns a Console.
func New(cfg Config) *Console {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Console{cfg: cfg, sessions: newSessions(cfg.Now), attempts: newAttempts(cfg.Now), mux: http.NewServeMux()}
	c.mux.HandleFunc("GET /approve/{id}", c.show)
	c.mux.HandleFunc("POST /approve/{id}", c.answer)
	c.mux.HandleFunc("POST /approve/{id}/login", c.login)
	c.mux.HandleFunc("POST /approve/{id}/logout", c.logout)
	c.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		c.message(w, http.StatusNotFound, "There is no such page",
			"Use the link that you were given: it ends with /approve/ and the id of the approval.")
	})
	return c
}

// maxForm bounds the size of a form, in bytes.
const maxForm = 64 << 10

// ServeHTTP implements http.Handler. The caller rejects cross-origin forms.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c.mux.ServeHTTP(w, r)
}

//go:embed page.html
var pageText string

var pages = template.Must(template.New("page").Parse(pageText))

// page is the data of the template.
type page struct {
	Nonce, Title    string
	Message, Detail string       // of a page with a message only
	Login, Failed   bool         // the form to sign in
	Request         *requestView // the form to answer
	Secret          string       // of the session
	SignedIn        bool         // it was with a token
	ID              string
}

func (c *Console) write(w http.ResponseWriter, status int, p page) {
	p.Nonce = rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+p.Nonce+
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would remove the Origin of forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := pages.Execute(w, p); err != nil {
		c.cfg.Log.Debug("write a page", "error", err)
	}
}

func (c *Console) message(w http.ResponseWriter, status int, title, detail string) {
	c.write(w, status, page{Title: title, Message: title, Detail: detail})
}

// fail shows the message of an error, which is written for the tenant, to a person who is
// signed in.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, s *session, err error) {
	status := http.StatusInternalServerError
	switch fault.KindOf(err) {
	case fault.Invalid:
		status = http.StatusBadRequest
	case fault.Denied:
		status = http.StatusForbidden
	case fault.NotFound:
		status = http.StatusNotFound
	case fault.Unavailable, fault.Exhausted:
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusInternalServerError {
		c.cfg.Log.Error("serve an approval page", "error", err)
	}
	title, detail := fault.Message(err), fault.Hint(err)
	if status == http.StatusNotFound { // the same for an id of another tenant
		detail = "Approvals are kept for a week. If this one is of another tenant, sign out and sign in with a token of that tenant."
	}
	first, size := utf8.DecodeRuneInString(title)
	title = string(unicode.ToUpper(first)) + title[size:]
	c.write(w, status, page{Title: title, Message: title, Detail: detail, SignedIn: s.token != "", ID: r.PathValue("id")})
}

// signedIn returns the session of a request whose caller may approve, or writes a page.
func (c *Console) signedIn(w http.ResponseWriter, r *http.Request) (*session, tenant.ID) {
	s := c.sessions.find(r)
	given := access.Credentials{Chain: chain(r)}
	if s != nil {
		given.Token = s.token
	}
	who := access.Identity{Tenant: c.cfg.Tenant, Scopes: []access.Scope{access.Approve}}
	if c.cfg.Verify != nil {
		if s == nil && len(given.Chain) == 0 {
			c.write(w, http.StatusUnauthorized, page{Title: "Sign in", Login: true, ID: r.PathValue("id")})
			return nil, tenant.ID{}
		}
		var err error
		if who, err = c.cfg.Verify(r.Context(), given); err != nil || who.Tenant.IsZero() ||
			!who.Expires.IsZero() && !who.Expires.After(c.cfg.Now()) {
			c.sessions.end(w, r)
			c.write(w, http.StatusUnauthorized, page{Title: "Sign in", Login: true, Failed: s != nil, ID: r.PathValue("id")})
			return nil, tenant.ID{}
		}
	}
	if !slices.Contains(who.Scopes, access.Approve) {
		c.sessions.end(w, r)
		c.message(w, http.StatusForbidden, "This token may not approve calls",
			`It does not have the scope "approve". Sign in with one that has it.`)
		return nil, tenant.ID{}
	}
	if c.refusesSuspended(w, r, who.Tenant) {
		return nil, tenant.ID{}
	}
	if s == nil {
		s = c.sessions.start(w, r, who.Tenant, "")
	}
	return s, who.Tenant
}

// refusesSuspended writes a page if a tenant is suspended: its requests are refused everywhere.
func (c *Console) refusesSuspended(w http.ResponseWriter, r *http.Request, id tenant.ID) bool {
	if e, err := c.cfg.Tenants.Find(id); err != nil || e.Suspension == nil { // other errors are those of the request
		return false
	}
	c.sessions.end(w, r)
	c.message(w, http.StatusForbidden, "This tenant is suspended", "Nobody can sign in until the operator of this server activates it.")
	return true
}

// withApprovals calls use with the approvals of a tenant. It creates no tenant.
func (c *Console) withApprovals(ctx context.Context, id tenant.ID, asked string, use func(*home.Home) error) (err error) {
	has, err := c.cfg.Tenants.Exists(id)
	if err != nil {
		return err
	}
	if !has {
		return fault.New(fault.NotFound, "there is no approval %.40q", strings.ToLower(strings.TrimSpace(asked)))
	}
	h, err := c.cfg.Tenants.Acquire(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Release(context.WithoutCancel(ctx))) }()
	return use(h)
}

func (c *Console) show(w http.ResponseWriter, r *http.Request) {
	s, id := c.signedIn(w, r)
	if s == nil {
		return
	}
	var found approval.Request
	err := c.withApprovals(r.Context(), id, r.PathValue("id"), func(h *home.Home) (err error) {
		if found, err = h.Approvals.Find(r.Context(), r.PathValue("id")); err == nil {
			_, err = c.cfg.Gate(h).RevealToPerson(r.Context(), string(found.Shown)) // records it in the audit log
		}
		return err
	})
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	view := newView(found, id, c.cfg.Now())
	c.write(w, http.StatusOK, page{Title: view.title(), Request: view, Secret: s.secret, SignedIn: s.token != "", ID: found.ID})
}

func (c *Console) answer(w http.ResponseWriter, r *http.Request) {
	s, id := c.signedIn(w, r)
	if s == nil {
		return
	}
	decision := r.PostFormValue("decision")
	switch {
	case subtle.ConstantTimeCompare([]byte(r.PostFormValue("secret")), []byte(s.secret)) != 1:
		c.message(w, http.StatusForbidden, "This form is from an earlier session", "Nothing was answered. Open the link again.")
		return
	case !slices.Contains([]string{"approve", "deny", tool.TookEffect, tool.NoEffect, tool.Stop}, decision):
		c.message(w, http.StatusBadRequest, "The form has no answer", "Nothing was answered. Open the link again.")
		return
	}
	scope, err := grant.ParseScope(r.PostFormValue("for"))
	if err != nil {
		c.message(w, http.StatusBadRequest, "The form has an answer that does not exist", "Nothing was answered. Open the link again.")
		return
	}
	given := approval.Answer{Approve: decision != "deny", By: approval.WebPage, Note: r.PostFormValue("reason"), Scope: scope}
	decides := decision != "approve" && decision != "deny" // about a call that was made
	if decides {
		given.Note = decision
	}
	var done approval.Request
	err = c.withApprovals(r.Context(), id, r.PathValue("id"), func(h *home.Home) (err error) {
		found, err := h.Approvals.Find(r.Context(), r.PathValue("id"))
		if err == nil && decides != (found.Kind == approval.Outcome) {
			err = fault.New(fault.Invalid, "the form is of another request")
		}
		if err != nil {
			return err
		}
		done, err = h.Approvals.Answer(r.Context(), r.PathValue("id"), given)
		return err
	})
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	http.Redirect(w, r, Path+done.ID, http.StatusSeeOther) // shows the outcome; a reload answers nothing
}
