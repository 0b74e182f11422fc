package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// discoverTimeout is how long a server may take to answer server/discover before it is
// sent initialize as well: some servers ignore unknown methods, others need longer to
// start.
const discoverTimeout = 5 * time.Second

// initializeID is the id of our own initialize requests. The SDK counts from 1.
const initializeID = 1<<31 - 1

var errNoDiscover = errors.New("the server does not answer server/discover")

// handshake selects the protocol era of a connection over streams. The SDK tries one era
// after the other and cannot go back; a server that is still starting reads both
// requests when it is ready and rejects one of them. The handshake therefore forwards
// the SDK's server/discover unchanged, sends initialize itself, and delivers the
// decisive response to the SDK.
type handshake struct {
	streams         *streams
	initializeFirst bool // send initialize first, and server/discover only if the response names the newer era
	identity        json.RawMessage

	mu              sync.Mutex
	discoverID      int64           // id of the SDK's server/discover; 0 before that
	deferred        []byte          // its line, while it is not sent
	sdkInitialize   int64           // id of the SDK's initialize; 0 before that
	initializeSent  bool            // whether initialize was sent
	versions        []string        // protocol versions sent with initialize
	result          json.RawMessage // of initialize
	rpcError        json.RawMessage // of initialize
	ignoresDiscover bool            // initialize was answered and server/discover was not
	done            bool            // the SDK has sent other requests
}

func newHandshake(s *streams, cfg Config) *handshake {
	identity, _ := json.Marshal(map[string]string{"name": cfg.Client, "version": cfg.Version}) // strings always marshal
	return &handshake{streams: s, initializeFirst: cfg.InitializeFirst, identity: identity}
}

// write handles the SDK's handshake requests. handled reports that the request must not
// be sent.
func (h *handshake) write(ctx context.Context, r *jsonrpc.Request, id int64, line []byte) (handled bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r.Method {
	case "server/discover":
		first := h.discoverID == 0
		h.discoverID = id
		switch {
		case !first:
		case h.initializeFirst:
			h.deferred = line
			return true, h.initialize(ctx, legacyProtocol)
		default:
			time.AfterFunc(discoverTimeout, h.fallBack)
		}
	case "initialize":
		h.sdkInitialize = id
		switch {
		case h.answered():
			h.deliverResult()
		case !h.initializeSent:
			return true, h.initialize(ctx, legacyProtocol)
		}
		return true, nil
	default:
		h.done = true
	}
	return false, nil
}

// fallBack sends initialize to a server that has not answered server/discover.
func (h *handshake) fallBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.initializeSent && h.streams.interceptor.isPending(h.discoverID) {
		_ = h.initialize(context.Background(), legacyProtocol) // a broken connection ends the session
	}
}

// initialize sends the request. The caller holds mu.
func (h *handshake) initialize(ctx context.Context, version string) error {
	h.initializeSent, h.versions = true, append(h.versions, version)
	return h.streams.enqueue(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}}`+"\n",
		initializeID, version, clientCapabilities, h.identity))
}

// receive consumes the response to our initialize, and reports whether the line was
// that.
func (h *handshake) receive(line []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.initializeSent || h.done || h.answered() {
		return false
	}
	m, ok := parseEnvelope(line)
	if !ok || strings.Trim(string(m.ID), `"`) != strconv.Itoa(initializeID) || m.Method != "" {
		return false
	}
	if m.Result == nil && m.Error == nil {
		m.Error = json.RawMessage(`{"code":-32603,"message":"the response has no result"}`)
	}
	h.streams.interceptor.markReceived()
	h.decide(m)
	return true
}

// answered reports whether initialize was answered. The caller holds mu.
func (h *handshake) answered() bool { return h.result != nil || h.rpcError != nil }

// decide acts on the response to initialize. The caller holds mu.
func (h *handshake) decide(m envelope) {
	newerOnly := false
	if m.Error != nil {
		refused := parseError(m.Error)
		version, _ := refused.supportedVersion()
		if version != "" && version <= legacyProtocol && !slices.Contains(h.versions, version) {
			_ = h.initialize(context.Background(), version)
			return
		}
		newerOnly = refused.needsNewerProtocol() || refused.IsMethodNotFound()
	}
	h.result, h.rpcError = m.Result, m.Error
	switch {
	case h.sdkInitialize != 0:
		h.deliverResult()
	case !h.streams.interceptor.isPending(h.discoverID): // the server has answered it
	case !newerOnly && m.Error != nil && h.deferred == nil: // it may have read both, and its answer to server/discover follows
		time.AfterFunc(discoverTimeout, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.failDiscover()
		})
	case !newerOnly:
		h.failDiscover()
	case h.deferred != nil:
		_ = h.streams.enqueue(context.Background(), h.deferred)
		h.deferred = nil
	}
}

// failDiscover ends the SDK's server/discover without an answer, unless there is one. The caller holds mu.
func (h *handshake) failDiscover() {
	if h.streams.interceptor.isPending(h.discoverID) {
		h.ignoresDiscover = true
		go h.streams.deliver(h.streams.interceptor.fail(h.discoverID, errNoDiscover))
	}
}

// deliverResult delivers the response to the SDK's initialize. The caller holds mu.
func (h *handshake) deliverResult() {
	key, value := "result", h.result
	if h.rpcError != nil {
		key, value = "error", h.rpcError
	}
	go h.streams.deliver(h.streams.interceptor.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%q:%s}`, h.sdkInitialize, key, value)))
}

// ignoredDiscover reports whether the server answered initialize and not
// server/discover.
func (h *handshake) ignoredDiscover() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ignoresDiscover
}

// needsNewerProtocol reports whether the server supports only the newer era.
func (r *ServerError) needsNewerProtocol() bool {
	version, named := r.supportedVersion()
	return named && (version == "" || version > legacyProtocol)
}

// supportedVersion returns the newest version in an unsupported-version error that this
// client supports too, "" if there is none. named reports whether the error is of that
// kind.
func (r *ServerError) supportedVersion() (version string, named bool) {
	if r.Code != sdk.CodeUnsupportedProtocolVersion {
		return "", false
	}
	var data sdk.UnsupportedProtocolVersionData
	_ = json.Unmarshal(r.Data, &data) // best effort
	for _, known := range sdk.SupportedProtocolVersions() {
		if slices.Contains(data.Supported, known) {
			return known, true
		}
	}
	return "", true
}
