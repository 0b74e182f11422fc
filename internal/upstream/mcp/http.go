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
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Address is where a server is reached over HTTP.
type Address struct {
	URL     string
	Headers map[string]string // sent with every request to the URL's own host, and to no other
	Events  bool              // the transport of 2024-11-05: one stream of events
	Tokens  TokenSource       // for the Authorization header; nil means that there are none
}

// OverHTTP opens a connection over streamable HTTP, or over events.
func OpenHTTP(ctx context.Context, a Address, cfg Config) (*Session, error) {
	at, err := url.Parse(a.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%.200q is no URL of HTTP", a.URL)
	}
	cfg.InitializeFirst = cfg.InitializeFirst || a.Events
	s, err := open(ctx, newHTTPLink(a, at, cfg.InitializeFirst, discoverTimeout), cfg)
	if refused, ok := errors.AsType[*ServerError](err); ok && !a.Events && refused.needsNewerProtocol() { // it was slow, or is another version now
		cfg.InitializeFirst = false
		return open(ctx, newHTTPLink(a, at, false, 0), cfg)
	}
	return s, err
}

// newWeb is a link that gives server/discover up after patience; 0 means never.
func newHTTPLink(a Address, at *url.URL, old bool, patience time.Duration) *httpLink {
	w := &httpLink{address: a, url: at, base: http.DefaultTransport.(*http.Transport).Clone(), discoverTimeout: patience}
	w.ignoresDiscover.Store(old && !a.Events)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// StatusError is an answer of HTTP that carries none of the protocol.
type StatusError struct {
	Code        int
	ContentType string // of its content, if the status was well
	Body        string // the beginning of its body, on one line
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

// web is what a connection sends its requests by. It adds the headers, keeps
// requests on their host, and shows the tap what comes.
type httpLink struct {
	address     Address
	url         *url.URL
	base        *http.Transport
	interceptor *interceptor
	denied      atomic.Pointer[fault.Error] // why there is no token; nil if there may be

	discoverTimeout time.Duration // with server/discover; 0 means any
	ignoresDiscover atomic.Bool   // whether that was given up, or left out

	ctx        context.Context // ends with cut: all requests end with it
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
	// The events that the SDK sees are bounded already.
	if w.address.Events {
		return &sdk.SSEClientTransport{Endpoint: w.address.URL, HTTPClient: client, MaxEventSize: -1}, nil
	}
	return &sdk.StreamableClientTransport{Endpoint: w.address.URL, HTTPClient: client, MaxEventSize: -1}, nil
}

// redirect follows only what stays on the host and repeats the request as it was.
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
		return w.send(r.Clone(w.ctx)) // the SDK lets it end with the opening
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "":
		return w.persistentStream(r), nil
	}
	return w.send(r)
}

// send is the round trip of one request, with what the tap has to know of it.
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
	res, err := w.sendAuthorized(sent)
	if err != nil {
		release()
		return nil, err
	}
	res.Body = &releasingBody{ReadCloser: res.Body, release: release}
	return w.checkResponse(sent, res, id)
}

// note tells the tap of a message that leaves and returns the id of a request,
// or 0. The question that some servers never answer is given up on after a time.
func (w *httpLink) register(r *http.Request, giveUp func()) (id int64, err error) {
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
	case m.Method == "": // an answer, whose id may be anything
		w.interceptor.serverRequestDone()
	case err == nil && m.ID != 0:
		w.interceptor.register(r.Context(), m.ID)
		if m.Method == "server/discover" && w.discoverTimeout > 0 {
			time.AfterFunc(w.discoverTimeout, func() {
				if w.interceptor.isPending(m.ID) {
					w.ignoresDiscover.Store(true)
				}
				giveUp()
			})
		}
	}
	return m.ID, nil
}

// judge passes an answer on as the SDK is to see it.
func (w *httpLink) checkResponse(r *http.Request, res *http.Response, id int64) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	fine := res.StatusCode >= 200 && res.StatusCode < 300
	switch {
	case r.Method == http.MethodDelete, res.StatusCode >= 300 && res.StatusCode < 400:
		return res, nil
	case w.address.Events && fine && r.Method == http.MethodPost:
		return res, nil // the answer comes as an event
	case kind == "text/event-stream" && fine:
		res.Body = newSSEReader(res.Body, w.interceptor, id, w.address.Events)
		res.ContentLength = -1
		return res, nil
	case kind == "application/json" && id != 0:
		return w.readMessage(res, id, fine)
	case fine && id == 0 && r.Method == http.MethodPost:
		return res, nil
	case res.StatusCode == http.StatusNotFound && r.Header.Get("Mcp-Session-Id") != "":
		if id != 0 { // whose asker may hear first that the SDK has closed the connection over it
			w.interceptor.fail(id, ErrSessionExpired)
		}
		return res, nil
	}
	return nil, w.statusError(res, kind)
}

// whole reads an answer that is one message.
func (w *httpLink) readMessage(res *http.Response, id int64, fine bool) (*http.Response, error) {
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, int64(w.interceptor.max)+1))
	if err != nil {
		return nil, err
	}
	var pass []byte
	switch {
	case len(data) > w.interceptor.max:
		pass = w.interceptor.fail(id, ErrTooLarge)
	case !fine && !isMessage(data):
		return nil, &StatusError{Code: res.StatusCode, Body: sanitize.Line(string(data[:min(len(data), 400)]), 200)}
	default:
		if pass = w.interceptor.receive(data); pass == nil {
			pass = w.interceptor.fail(id, ErrMalformed)
		}
	}
	if !fine && id != 0 && bytes.Contains(pass, []byte(`"result"`)) { // no result has such a status
		pass = w.interceptor.fail(id, ErrMalformed)
	}
	res.Body = io.NopCloser(bytes.NewReader(pass))
	res.ContentLength = int64(len(pass))
	res.Header.Del("Content-Length")
	return res, nil
}

func isMessage(data []byte) bool {
	var m envelope
	return json.Unmarshal(data, &m) == nil && (m.Error != nil && m.Error[0] == '{' || m.Result != nil)
}

func (w *httpLink) statusError(res *http.Response, kind string) *StatusError {
	defer res.Body.Close()
	e := &StatusError{Code: res.StatusCode, ContentType: kind}
	if strings.HasPrefix(kind, "text/plain") || kind == "application/json" {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 400))
		e.Body = sanitize.Line(string(said), 200)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		e.Code = http.StatusOK
	}
	return e
}

// body lets go of a request's context when it is closed or at its end.
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
