package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Address describes a server over HTTP.
type Address struct {
	URL     string
	Headers map[string]string // sent with every request to the host of the URL, and to no other host
	Events  bool              // use the HTTP+SSE transport of 2024-11-05
	Tokens  TokenSource       // for the Authorization header; nil sends none
}

// OpenHTTP opens a connection over streamable HTTP or HTTP+SSE.
func OpenHTTP(ctx context.Context, a Address, cfg Config) (*Session, error) {
	at, err := url.Parse(a.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%.200q is not an HTTP URL", a.URL)
	}
	cfg.InitializeFirst = cfg.InitializeFirst || a.Events
	s, err := open(ctx, newHTTPLink(a, at, cfg.InitializeFirst, discoverTimeout), cfg)
	if refused, ok := errors.AsType[*ServerError](err); ok && !a.Events && refused.needsNewerProtocol() { // it was slow, or was upgraded
		cfg.InitializeFirst = false
		return open(ctx, newHTTPLink(a, at, false, 0), cfg)
	}
	return s, err
}

// newHTTPLink returns a link that abandons server/discover after timeout; 0 means never.
func newHTTPLink(a Address, at *url.URL, old bool, patience time.Duration) *httpLink {
	w := &httpLink{address: a, url: at, base: http.DefaultTransport.(*http.Transport).Clone(), discoverTimeout: patience}
	w.ignoresDiscover.Store(old && !a.Events)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// StatusError is an HTTP response without a protocol message.
type StatusError struct {
	Code        int
	ContentType string        // media type, if the status is 2xx
	Body        string        // beginning of the body, on one line
	RetryAfter  time.Duration // of its header; 0 if there is none
}

func (e *StatusError) Error() string {
	switch {
	case e.Code == http.StatusOK:
		return fmt.Sprintf("answered with %q instead of a message", e.ContentType)
	case e.Body != "":
		return fmt.Sprintf("answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Body)
	}
	return fmt.Sprintf("answered %d %s", e.Code, http.StatusText(e.Code))
}

// httpLink is an http.RoundTripper for the SDK. It adds headers, restricts requests to the configured host, and
// passes messages to the interceptor.
type httpLink struct {
	address     Address
	url         *url.URL
	base        *http.Transport
	interceptor *interceptor
	denied      atomic.Pointer[fault.Error] // why no token is available; nil if unknown

	discoverTimeout time.Duration // 0 means no limit
	ignoresDiscover atomic.Bool   // server/discover was abandoned or skipped

	ctx        context.Context // of all requests, because that of http.RoundTripper ends too early; cancelled by abort
	cancel     context.CancelFunc
	background sync.WaitGroup
}

func (w *httpLink) abort() {
	w.cancel()
	w.base.CloseIdleConnections()
}

func (w *httpLink) legacy() bool { return w.ignoresDiscover.Load() }

func (w *httpLink) wait() { w.background.Wait() }

func (w *httpLink) transport(t *interceptor) (sdk.Transport, error) {
	w.interceptor = t
	client := &http.Client{Transport: w, CheckRedirect: w.redirect}
	// The interceptor bounds events before the SDK sees them.
	if w.address.Events {
		return &sdk.SSEClientTransport{Endpoint: w.address.URL, HTTPClient: client, MaxEventSize: -1}, nil
	}
	return &sdk.StreamableClientTransport{Endpoint: w.address.URL, HTTPClient: client, MaxEventSize: -1}, nil
}

// redirect follows redirects that stay on the host and repeat the request unchanged.
func (w *httpLink) redirect(next *http.Request, before []*http.Request) error {
	if !w.sameHost(next.URL) || len(before) > 3 {
		return ErrOtherHost
	}
	if next.Method != before[0].Method {
		return http.ErrUseLastResponse
	}
	return nil
}

func (w *httpLink) sameHost(u *url.URL) bool {
	return u.Scheme == w.url.Scheme && strings.EqualFold(u.Host, w.url.Host)
}

// RoundTrip implements http.RoundTripper.
func (w *httpLink) RoundTrip(r *http.Request) (*http.Response, error) {
	if !w.sameHost(r.URL) {
		return nil, ErrOtherHost
	}
	switch {
	case r.Method == http.MethodGet && w.address.Events:
		return w.send(r.Clone(w.ctx)) // the SDK's context ends after the handshake
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "":
		return w.persistentStream(r), nil
	}
	return w.send(r)
}

// send sends one request and registers it with the interceptor.
func (w *httpLink) send(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(w.ctx, cancel)
	release := func() { stop(); cancel() }
	sent := r.Clone(ctx)
	for name, value := range w.address.Headers {
		sent.Header.Set(name, value)
	}
	id, err := w.register(sent, cancel)
	if err != nil {
		release()
		return nil, err
	}
	a, _ := ctx.Value(requestKey{}).(*request)
	if id != 0 && a != nil {
		sent = sent.WithContext(httptrace.WithClientTrace(ctx,
			&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.sent.Store(true) }}))
	}
	res, err := w.sendAuthorized(sent)
	if err != nil {
		if id != 0 && a != nil {
			a.refused.Store(true)
		}
		release()
		return nil, err
	}
	res.Body = &releasingBody{ReadCloser: res.Body, release: release}
	return w.checkResponse(sent, res, id)
}

// register registers an outgoing message with the interceptor and returns the id of a
// request, otherwise 0. It calls abandon if server/discover is not answered in time.
func (w *httpLink) register(r *http.Request, abandon func()) (id int64, err error) {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return 0, nil
	}
	b, err := r.GetBody()
	if err != nil {
		return 0, err
	}
	var m struct {
		ID     int64  `json:"id"`
		Method string `json:"method"`
	}
	err = json.NewDecoder(b).Decode(&m)
	switch {
	case m.Method == "": // a response, whose id may be of any type
		w.interceptor.serverRequestDone()
	case err == nil && m.ID != 0:
		w.interceptor.register(r.Context(), m.ID)
		if m.Method == "server/discover" && w.discoverTimeout > 0 {
			time.AfterFunc(w.discoverTimeout, func() {
				if w.interceptor.isPending(m.ID) {
					w.ignoresDiscover.Store(true)
				}
				abandon()
			})
		}
	}
	return m.ID, nil
}

// checkResponse returns a response in the form that the SDK shall see.
func (w *httpLink) checkResponse(r *http.Request, res *http.Response, id int64) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	fine := res.StatusCode >= 200 && res.StatusCode < 300
	switch {
	case r.Method == http.MethodDelete, res.StatusCode >= 300 && res.StatusCode < 400:
		return res, nil
	case w.address.Events && fine && r.Method == http.MethodPost:
		return res, nil // the response arrives as an event
	case kind == "text/event-stream" && fine:
		res.Body = newSSEReader(res.Body, w.interceptor, id, w.address.Events)
		res.ContentLength = -1
		return res, nil
	case lostSession(r, res, id, w.address.Events):
		if id != 0 { // fail it first: the SDK closes the connection on this status
			w.interceptor.fail(id, ErrSessionExpired)
		}
		res.StatusCode, res.Status = http.StatusNotFound, "404 Not Found"
		return res, nil
	case kind == "application/json" && id != 0 && !leavesCallOpen(r, res.StatusCode):
		return w.readMessage(res, id, fine)
	case fine && id == 0 && r.Method == http.MethodPost:
		return res, nil
	}
	e := w.statusError(res, kind)
	if id != 0 { // fail it first: the SDK may close the connection on this error
		w.interceptor.fail(id, e)
	}
	return nil, e
}

// leavesCallOpen reports whether a request calls a tool and the status of its response leaves open
// whether the call took effect. The body may be that of a gateway.
func leavesCallOpen(r *http.Request, status int) bool {
	const clientClosed = 499 // of nginx
	a, _ := r.Context().Value(requestKey{}).(*request)
	return a != nil && a.method == "tools/call" && (status >= 500 || status == http.StatusRequestTimeout || status == clientClosed)
}

// readMessage reads a response that is one message.
func (w *httpLink) readMessage(res *http.Response, id int64, fine bool) (*http.Response, error) {
	defer res.Body.Close()
	m := message{t: w.interceptor}
	defer m.processed()
	if _, err := io.Copy(&m, res.Body); err != nil {
		m.discard()
		return nil, err
	}
	data := m.data
	var pass []byte
	switch {
	case m.tail != nil && fine:
		pass = bytes.Join(w.interceptor.receiveLarge(&m, id), nil)
		if w.interceptor.isPending(id) { // the message answers another request
			pass = w.interceptor.fail(id, ErrMalformed)
		}
	case m.tail != nil:
		pass = bytes.Join(w.interceptor.refuseLarge(&m, id), nil)
	case !fine && !isMessage(data):
		return nil, &StatusError{Code: res.StatusCode, Body: sanitize.Line(string(data[:min(len(data), 400)]), 200)}
	default:
		if pass = w.interceptor.receive(data); pass == nil {
			pass = w.interceptor.fail(id, ErrMalformed)
		}
	}
	if !fine && id != 0 && bytes.Contains(pass, []byte(`"result"`)) { // a result requires status 2xx
		pass = w.interceptor.fail(id, ErrMalformed)
	}
	res.Body = io.NopCloser(bytes.NewReader(pass))
	res.ContentLength = int64(len(pass))
	res.Header.Del("Content-Length")
	return res, nil
}

func isMessage(data []byte) bool {
	m, ok := parseEnvelope(data)
	return ok && (m.Error != nil && m.Error[0] == '{' || m.Result != nil)
}

func (w *httpLink) statusError(res *http.Response, kind string) *StatusError {
	defer res.Body.Close()
	e := &StatusError{Code: res.StatusCode, ContentType: kind}
	e.RetryAfter = retryAfter(res.Header.Get("Retry-After"))
	if strings.HasPrefix(kind, "text/plain") || kind == "application/json" {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 400))
		e.Body = sanitize.Line(string(text), 200)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		e.Code = http.StatusOK
	}
	return e
}

// retryAfter returns the time that a header Retry-After asks to wait: seconds, or a date.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(at).Round(time.Second))
	}
	return 0
}

// releasingBody releases the context of a request at the end of its body or when it is
// closed.
type releasingBody struct {
	io.ReadCloser
	release func()
	once    sync.Once
}

func (b *releasingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.once.Do(b.release)
	}
	return n, err
}

func (b *releasingBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.release)
	return err
}
