package wire

import (
	"crypto/rand"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventStreams serves the HTTP+SSE transport of 2024-11-05: a GET opens a stream, and the
// client posts its messages to the address in the first event. Unlike the SDK's handler,
// it accepts a POST only from the caller that opened the stream.
type eventStreams struct {
	server  *mcp.Server
	authn   authenticator
	maxBody int64
	foreign func(caller string, f Foreign) // as HTTPConfig.Foreign

	mu   sync.Mutex
	open map[string]eventStream // by id
}

type eventStream struct {
	transport *mcp.SSEServerTransport
	caller    string
}

func newEventStreams(server *mcp.Server, authn authenticator, cfg HTTPConfig) *eventStreams {
	return &eventStreams{server: server, authn: authn, maxBody: cfg.MaxBody, foreign: cfg.Foreign, open: map[string]eventStream{}}
}

// streamParameter names the URL parameter that identifies the stream of a POST.
const streamParameter = "sessionid"

// ServeHTTP implements http.Handler.
func (e *eventStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		e.stream(w, r)
	case http.MethodPost:
		e.post(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// stream opens a stream and serves it until the client or the server closes it.
func (e *eventStreams) stream(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	endpoint := *r.URL
	endpoint.RawQuery = streamParameter + "=" + id
	t := &mcp.SSEServerTransport{Endpoint: endpoint.RequestURI(), Response: w, MaxRequestBodyBytes: e.maxBody}
	e.mu.Lock()
	e.open[id] = eventStream{t, e.authn.callerFrom(r.Context())}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.open, id)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	// Messages on this stream take their caller from this context.
	session, err := e.server.Connect(r.Context(), t, nil)
	if err != nil {
		return // the client disconnected before the first event
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = session.Wait() }()
	select {
	case <-r.Context().Done():
	case <-ended:
	}
	_ = session.Close()
}

// post delivers a message to a stream of the same caller.
func (e *eventStreams) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	if rejectLarge(w, r, e.maxBody) {
		return
	}
	id := r.URL.Query().Get(streamParameter)
	if id == "" {
		http.Error(w, "the URL has no parameter "+streamParameter+"; open a stream with GET and post to the address in its first event", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	s, ok := e.open[id]
	e.mu.Unlock()
	caller := e.authn.callerFrom(r.Context())
	if ok && s.caller != caller {
		e.foreign(caller, ForeignStream)
		ok = false // as if it did not exist
	}
	if !ok {
		http.Error(w, "stream not found; open one with GET", http.StatusNotFound)
		return
	}
	s.transport.ServeHTTP(w, r)
}
