package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// callbackServer receives the redirect of the browser on a loopback port, during one
// login.
type callbackServer struct {
	redirectURI string // sent to the authorization server
	path        string
	state       string // required state parameter
	server      *http.Server
	callbacks   chan callback
	served      chan struct{}
}

// callback contains the parameters of the redirect.
type callback struct {
	code, issuer string
	err          string // error of the authorization server
	codeOnly     bool   // only the code was pasted
}

// listenCallback listens at the configured redirect URL, or on a free port.
func listenCallback(redirect string) (*callbackServer, error) {
	u, err := url.Parse(cmp.Or(redirect, "http://127.0.0.1/callback"))
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) {
		return nil, fault.New(fault.Invalid, "has redirect_url %.200q in its oauth: it must be http:// at 127.0.0.1, [::1] or localhost",
			redirect)
	}
	name := u.Hostname()
	if name == "localhost" {
		name = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(name, cmp.Or(u.Port(), "0")))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot be logged in to: cannot listen at %s: %s", u.Host, reason(err))
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	u.Host = net.JoinHostPort(u.Hostname(), port)
	b := &callbackServer{redirectURI: u.String(), path: cmp.Or(u.Path, "/"), state: rand.Text(), callbacks: make(chan callback),
		served: make(chan struct{})}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(b.served)
		_ = b.server.Serve(l)
	}()
	return b, nil
}

// ServeHTTP accepts a redirect. Other requests, and the redirect of another login, do
// not end the wait.
func (b *callbackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	a, ok := b.parse(r.URL.Query())
	if r.Method != http.MethodGet || r.URL.Path != b.path || !ok {
		http.Error(w, "This is not the expected redirect of the login.", http.StatusNotFound)
		return
	}
	select {
	case b.callbacks <- a:
		_, _ = w.Write([]byte("Sandpiper has received the response. You can close this window and return to the terminal.\n"))
	case <-r.Context().Done():
	}
}

// wait returns the callback, from the browser or pasted. requireIssuer requires the
// issuer parameter in a pasted one.
func (b *callbackServer) wait(ctx context.Context, requireIssuer bool, p Interaction) (callback, error) {
	for {
		select {
		case a := <-b.callbacks:
			return a, nil
		case line, open := <-p.Pasted:
			if !open {
				p.Pasted = nil
				continue
			}
			a, problem := b.parsePasted(line, requireIssuer)
			if problem == "" {
				return a, nil
			}
			p.Reject(problem)
		case <-ctx.Done():
			return callback{}, fault.Wrap(fault.Unavailable, context.Cause(ctx), "was not logged in to: the browser did not return in time")
		}
	}
}

// parse parses the parameters of a redirect and checks that it belongs to this login.
func (b *callbackServer) parse(q url.Values) (callback, bool) {
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1 {
		return callback{}, false
	}
	a := callback{code: q.Get("code"), issuer: q.Get("iss"), err: strings.TrimSpace(q.Get("error") + " " + q.Get("error_description"))}
	return a, a.code != "" || a.err != ""
}

// maxCode bounds the length of a code.
const maxCode = 8 << 10

// parsePasted parses a pasted code or URL. problem describes why it is unusable.
func (b *callbackServer) parsePasted(line string, requireIssuer bool) (a callback, problem string) {
	line = strings.TrimSpace(line)
	_, query, isAddress := strings.Cut(line, "?")
	if !isAddress && !strings.Contains(line, "://") {
		switch {
		case line == "" || len(line) > maxCode || strings.ContainsAny(line, " \t&"):
			return a, "this is neither a code nor the URL at which the browser ended"
		case requireIssuer:
			return a, "a code alone is not sufficient for this server; paste the whole URL at which the browser ended"
		}
		return callback{code: line, codeOnly: true}, ""
	}
	query, _, _ = strings.Cut(query, "#")
	q, err := url.ParseQuery(query)
	if err != nil || !q.Has("code") && !q.Has("error") {
		return a, "this URL contains no code; paste the URL at which the browser ended, which begins with the redirect URL"
	}
	a, ok := b.parse(q)
	if !ok {
		return a, "this URL belongs to another login; open the login URL above again"
	}
	return a, ""
}

// close stops the server and lets a browser receive the last page.
func (b *callbackServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
	<-b.served
}
