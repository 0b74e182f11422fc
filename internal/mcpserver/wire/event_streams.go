package wire

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventStreams serves the HTTP+SSE transport of 2024-11-05: a GET opens a stream, and the
// client posts its messages to the address in the first event. Unlike the SDK's handler,
// it accepts a POST only from the caller that opened the stream, and its messages have the
// token of the POST: that of the stream may be older or have other scopes.
type eventStreams struct {
	server  *mcp.Server
	authn   authenticator
	scopeOf func(operation) string
	maxBody int64
	foreign func(caller string, f Foreign) // as HTTPConfig.Foreign

	mu   sync.Mutex
	open map[string]*eventStream // by id
}

// eventStream is the SDK's transport and connection, except that messages come from posted.
type eventStream struct {
	*mcp.SSEServerTransport
	mcp.Connection // set by Connect

	caller   string
	accepted func() bool // whether the token that opened it still is; nil if none is required
	needs    needs       // of callers that cancel its requests
	posted   chan jsonrpc.Message
	closed   chan struct{}
	once     sync.Once

	mu     sync.Mutex
	memory map[jsonrpc.ID]*requestMemory // memory of calls that are not answered; nil after Close
}

// hold keeps the memory of a call until it is answered or the stream ends.
func (s *eventStream) hold(id jsonrpc.ID, m *requestMemory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory != nil {
		m.retain()
		s.memory[id].release() // of a call with the same id
		s.memory[id] = m
	}
}

func (s *eventStream) release(id jsonrpc.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory[id].release()
	delete(s.memory, id)
}

// Write implements mcp.Connection.
func (s *eventStream) Write(ctx context.Context, m jsonrpc.Message) error {
	err := s.Connection.Write(ctx, m)
	if answer, ok := m.(*jsonrpc.Response); ok {
		s.release(answer.ID)
	}
	return err
}

// Connect implements mcp.Transport.
func (s *eventStream) Connect(ctx context.Context) (_ mcp.Connection, err error) {
	s.Connection, err = s.SSEServerTransport.Connect(ctx)
	return s, err
}

// Read implements mcp.Connection.
func (s *eventStream) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.posted:
		return m, nil
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements mcp.Connection.
func (s *eventStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.mu.Lock()
	for _, m := range s.memory {
		m.release()
	}
	s.memory = nil
	s.mu.Unlock()
	return s.Connection.Close()
}

func newEventStreams(server *mcp.Server, authn authenticator, scopeOf func(operation) string, cfg HTTPConfig) *eventStreams {
	return &eventStreams{
		server:  server,
		authn:   authn,
		scopeOf: scopeOf,
		maxBody: cfg.MaxBody,
		foreign: cfg.Foreign,
		open:    map[string]*eventStream{},
	}
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
	s := &eventStream{
		SSEServerTransport: &mcp.SSEServerTransport{Endpoint: endpoint.RequestURI(), Response: w},
		caller:             e.authn.callerFrom(r.Context()), posted: make(chan jsonrpc.Message), closed: make(chan struct{}),
		memory: map[jsonrpc.ID]*requestMemory{},
	}
	if e.authn.verify != nil {
		s.accepted = e.authn.stillAccepted(r)
	}
	e.mu.Lock()
	e.open[id] = s
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.open, id)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	session, err := e.server.Connect(r.Context(), s, nil)
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
		http.Error(w, "the URL has no parameter "+streamParameter+"; open a stream with GET and post to the address in its first event",
			http.StatusBadRequest)
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
	if ok && s.accepted != nil && !s.accepted() { // before recheckStream: no answer to another token may be sent to it
		_ = s.Close()
		ok = false
	}
	if !ok {
		http.Error(w, "stream not found; open one with GET", http.StatusNotFound)
		return
	}
	e.deliver(w, r, s)
}

func (e *eventStreams) deliver(w http.ResponseWriter, r *http.Request, s *eventStream) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, e.maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, fmt.Sprintf("the request cannot be read; it may have %d bytes", e.maxBody), status)
		return
	}
	m, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		http.Error(w, "the request is not a JSON-RPC message", http.StatusBadRequest)
		return
	}
	if e.authn.refuseReply(w, r, body) {
		return
	}
	if cancels(body) {
		if missing := e.authn.missing(r.Context(), s.needs.all()); len(missing) > 0 {
			e.authn.refuseScope(w, json.RawMessage("null"), missing...)
			return
		}
	}
	if call, ok := m.(*jsonrpc.Request); ok {
		call.Extra = extraOf(r)
		var o operation
		if json.Unmarshal(body, &o) == nil {
			s.needs.add(e.scopeOf(o))
		}
		if call.IsCall() {
			s.hold(call.ID, memoryOf(r.Context()))
		}
	}
	select {
	case s.posted <- m:
		w.WriteHeader(http.StatusAccepted)
		return
	case <-s.closed:
		http.Error(w, "the stream has ended", http.StatusNotFound)
	case <-r.Context().Done():
	}
	if call, ok := m.(*jsonrpc.Request); ok && call.IsCall() {
		s.release(call.ID)
	}
}
