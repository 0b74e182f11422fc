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

// landing is where the browser comes back to: a port of this machine that nobody
// else reaches, for the time of one login.
type callbackServer struct {
	redirectURI string // as the authorization server is told
	path        string
	state       string // that the answer has to bring along
	server      *http.Server
	callbacks   chan callback
	served      chan struct{}
}

// answer is what a browser comes back with.
type callback struct {
	code, issuer string
	err          string // why there is no code
	codeOnly     bool   // a person copied the code alone
}

// listen opens the landing at an address of the configuration, or at a free port.
func listenCallback(redirect string) (*callbackServer, error) {
	u, err := url.Parse(cmp.Or(redirect, "http://127.0.0.1/callback"))
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) {
		return nil, fault.New(fault.Invalid, "has redirect_url %.200q in its oauth: it must be http:// at 127.0.0.1, [::1] or localhost", redirect)
	}
	name := u.Hostname()
	if name == "localhost" {
		name = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(name, cmp.Or(u.Port(), "0")))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot be logged in to: nothing can listen at %s on this machine: %s", u.Host, reason(err))
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	u.Host = net.JoinHostPort(u.Hostname(), port)
	b := &callbackServer{redirectURI: u.String(), path: cmp.Or(u.Path, "/"), state: rand.Text(), callbacks: make(chan callback), served: make(chan struct{})}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(b.served)
		_ = b.server.Serve(l)
	}()
	return b, nil
}

// ServeHTTP hands on what a browser brings. Who brings something else, or another
// login's answer, does not end the wait.
func (b *callbackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	a, ok := b.parse(r.URL.Query())
	if r.Method != http.MethodGet || r.URL.Path != b.path || !ok {
		http.Error(w, "This is not the answer that is waited for.", http.StatusNotFound)
		return
	}
	select {
	case b.callbacks <- a:
		_, _ = w.Write([]byte("Sandpiper has the answer. You can close this window and go back to the terminal.\n"))
	case <-r.Context().Done():
	}
}

// wait returns the answer, from the browser or from who copied it. issuer tells
// whether it must say whose it is.
func (b *callbackServer) wait(ctx context.Context, issuer bool, p Interaction) (callback, error) {
	for {
		select {
		case a := <-b.callbacks:
			return a, nil
		case line, open := <-p.Pasted:
			if !open {
				p.Pasted = nil
				continue
			}
			a, wrong := b.parsePasted(line, issuer)
			if wrong == "" {
				return a, nil
			}
			p.Reject(wrong)
		case <-ctx.Done():
			return callback{}, fault.Wrap(fault.Unavailable, context.Cause(ctx), "was not logged in to: nobody came back from the browser in time")
		}
	}
}

// read takes an answer apart, if it is that of this login.
func (b *callbackServer) parse(q url.Values) (callback, bool) {
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1 {
		return callback{}, false
	}
	a := callback{code: q.Get("code"), issuer: q.Get("iss"), err: strings.TrimSpace(q.Get("error") + " " + q.Get("error_description"))}
	return a, a.code != "" || a.err != ""
}

// maxCode is how long a code may be at most.
const maxCode = 8 << 10

// pasted reads what a person copied, or says what is wrong with it.
func (b *callbackServer) parsePasted(line string, issuer bool) (a callback, wrong string) {
	line = strings.TrimSpace(line)
	_, query, isAddress := strings.Cut(line, "?")
	if !isAddress && !strings.Contains(line, "://") {
		switch {
		case line == "" || len(line) > maxCode || strings.ContainsAny(line, " \t&"):
			return a, "that is neither a code nor the address at which the browser ended"
		case issuer:
			return a, "a code alone is not enough for this server; paste the whole address at which the browser ended"
		}
		return callback{code: line, codeOnly: true}, ""
	}
	query, _, _ = strings.Cut(query, "#")
	q, err := url.ParseQuery(query)
	if err != nil || !q.Has("code") && !q.Has("error") {
		return a, "there is no code in that address; paste the one at which the browser ended, which begins with the redirect address"
	}
	a, ok := b.parse(q)
	if !ok {
		return a, "that address belongs to another login; open the address above once more"
	}
	return a, ""
}

// close ends the landing, and lets a browser have its last page.
func (b *callbackServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
	<-b.served
}
