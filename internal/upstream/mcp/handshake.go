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

// discoverPatience is how long a server may take to answer server/discover before
// it is sent initialize as well: some servers ignore methods that they do not know,
// others need longer than that to start.
const discoverTimeout = 5 * time.Second

// initializeID is the id of our own initialize requests. The SDK counts from 1.
const initializeID = 1<<31 - 1

var errNoDiscover = errors.New("the server does not answer server/discover")

// handshake decides the protocol era of a connection over streams. The SDK tries
// one era after the other and cannot go back; a server that is still starting reads
// both requests when it is ready, and refuses one of them. So the handshake stands
// between the two: the SDK's server/discover is sent as it is, initialize is sent by
// the handshake itself, and the SDK sees the answer that decides.
type handshake struct {
	streams         *streams
	initializeFirst bool // send initialize first, and server/discover only if that names the newer era
	identity        json.RawMessage

	mu              sync.Mutex
	discoverID      int64           // id of the SDK's server/discover; 0 before it
	deferred        []byte          // the same as a line, while it is not sent
	sdkInitialize   int64           // id of the SDK's initialize; 0 if it has not asked
	initializeSent  bool            // whether initialize is
	versions        []string        // that initialize was sent with
	result          json.RawMessage // the result of initialize
	rpcError        json.RawMessage // or the error
	ignoresDiscover bool            // whether initialize was answered and server/discover was not
	done            bool            // whether the SDK has gone on to other requests
}

func newHandshake(s *streams, cfg Config) *handshake {
	identity, _ := json.Marshal(map[string]string{"name": cfg.Client, "version": cfg.Version}) // texts can be
	return &handshake{streams: s, initializeFirst: cfg.InitializeFirst, identity: identity}
}

// write takes the SDK's requests of the handshake, and reports whether there is
// nothing more to do for one.
func (h *handshake) write(ctx context.Context, r *jsonrpc.Request, id int64, line []byte) (taken bool, err error) {
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

// hurry sends initialize to a server that has not answered server/discover.
func (h *handshake) fallBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.initializeSent && h.streams.interceptor.isPending(h.discoverID) {
		_ = h.initialize(context.Background(), legacyProtocol) // a broken connection ends the session
	}
}

// initialize sends the request. It is called under mu.
func (h *handshake) initialize(ctx context.Context, version string) error {
	h.initializeSent, h.versions = true, append(h.versions, version)
	return h.streams.enqueue(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{"form":{}}},"clientInfo":%s}}`+"\n",
		initializeID, version, h.identity))
}

// receive takes the answer to our initialize, and reports whether the line was one.
func (h *handshake) receive(line []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.initializeSent || h.done || h.answered() {
		return false
	}
	var m envelope
	if json.Unmarshal(line, &m) != nil || strings.Trim(string(m.ID), `"`) != strconv.Itoa(initializeID) || m.Method != "" {
		return false
	}
	if m.Result == nil && m.Error == nil {
		m.Error = json.RawMessage(`{"code":-32603,"message":"the answer has no result"}`)
	}
	h.streams.interceptor.markReceived()
	h.decide(m)
	return true
}

// answered reports whether initialize is. It is called under mu.
func (h *handshake) answered() bool { return h.result != nil || h.rpcError != nil }

// decide acts on the answer to initialize. It is called under mu.
func (h *handshake) decide(m envelope) {
	newer := false
	if m.Error != nil {
		refused := parseError(m.Error)
		version, _ := refused.supportedVersion()
		if version != "" && version <= legacyProtocol && !slices.Contains(h.versions, version) {
			_ = h.initialize(context.Background(), version)
			return
		}
		newer = refused.needsNewerProtocol() || refused.IsMethodNotFound()
	}
	h.result, h.rpcError = m.Result, m.Error
	switch {
	case h.sdkInitialize != 0:
		h.deliverResult()
	case !h.streams.interceptor.isPending(h.discoverID): // the server has answered it
	case !newer:
		h.ignoresDiscover = true
		go h.streams.deliver(h.streams.interceptor.fail(h.discoverID, errNoDiscover))
	case h.deferred != nil:
		_ = h.streams.enqueue(context.Background(), h.deferred)
		h.deferred = nil
	}
}

// pass has the SDK read the answer to its initialize. It is called under mu.
func (h *handshake) deliverResult() {
	key, value := "result", h.result
	if h.rpcError != nil {
		key, value = "error", h.rpcError
	}
	go h.streams.deliver(h.streams.interceptor.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%q:%s}`, h.sdkInitialize, key, value)))
}

// ignored reports whether the server answered initialize and not server/discover.
func (h *handshake) ignoredDiscover() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ignoresDiscover
}

// newer reports whether the refusal is of a server that speaks the newer era only.
func (r *ServerError) needsNewerProtocol() bool {
	version, named := r.supportedVersion()
	return named && (version == "" || version > legacyProtocol)
}

// era is what a refusal says of protocol versions: whether it is about them, and the
// newest of those that the server names and we know.
func (r *ServerError) supportedVersion() (version string, named bool) {
	if r.Code != sdk.CodeUnsupportedProtocolVersion {
		return "", false
	}
	var data sdk.UnsupportedProtocolVersionData
	_ = json.Unmarshal(r.Data, &data) // as much as can be read
	for _, known := range sdk.SupportedProtocolVersions() {
		if slices.Contains(data.Supported, known) {
			return known, true
		}
	}
	return "", true
}
