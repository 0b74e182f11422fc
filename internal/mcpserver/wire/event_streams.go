package wire

import (
	"crypto/rand"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventStreams serves the transport of 2024-11-05: a GET opens a stream, and POSTs to the
// address in its first event are the client's messages. The SDK's handler accepts POSTs
// of any caller to any stream.
type eventStreams struct {
	server  *mcp.Server
	who     callers
	maxBody int64

	mu   sync.Mutex
	open map[string]eventStream // by id
}

type eventStream struct {
	transport *mcp.SSEServerTransport
	caller    string
}

func newEventStreams(server *mcp.Server, who callers, maxBody int64) *eventStreams {
	return &eventStreams{server: server, who: who, maxBody: maxBody, open: map[string]eventStream{}}
}

// streamParameter is the URL parameter with the stream of a POST.
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
	e.open[id] = eventStream{t, e.who.on(r.Context())}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.open, id)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	// The context gives the requests of this stream their caller.
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
	id := r.URL.Query().Get(streamParameter)
	if id == "" {
		http.Error(w, "the URL names no stream; open one with GET", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	s, ok := e.open[id]
	e.mu.Unlock()
	switch {
	case !ok:
		http.Error(w, "stream not found; open one with GET", http.StatusNotFound)
	case s.caller != e.who.on(r.Context()):
		http.Error(w, "this stream belongs to another token", http.StatusForbidden)
	default:
		s.transport.ServeHTTP(w, r)
	}
}
