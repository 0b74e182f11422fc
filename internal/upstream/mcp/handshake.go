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
const discoverPatience = 5 * time.Second

// initializeID is the id of our own initialize requests. The SDK counts from 1.
const initializeID = 1<<31 - 1

var errNoDiscover = errors.New("the server does not answer server/discover")

// handshake decides the protocol era of a connection over streams. The SDK tries
// one era after the other and cannot go back; a server that is still starting reads
// both requests when it is ready, and refuses one of them. So the handshake stands
// between the two: the SDK's server/discover is sent as it is, initialize is sent by
// the handshake itself, and the SDK sees the answer that decides.
type handshake struct {
	s        *streams
	old      bool // send initialize first, and server/discover only if that names the newer era
	identity json.RawMessage

	mu       sync.Mutex
	discover int64           // id of the SDK's server/discover; 0 before it
	held     []byte          // the same as a line, while it is not sent
	waiting  int64           // id of the SDK's initialize; 0 if it has not asked
	sent     bool            // whether initialize is
	versions []string        // that initialize was sent with
	answer   json.RawMessage // the result of initialize
	refused  json.RawMessage // or the error
	mute     bool            // whether initialize was answered and server/discover was not
	over     bool            // whether the SDK has gone on to other requests
}

func newHandshake(s *streams, cfg Config) *handshake {
	identity, _ := json.Marshal(map[string]string{"name": cfg.Client, "version": cfg.Version}) // texts can be
	return &handshake{s: s, old: cfg.Old, identity: identity}
}

// write takes the SDK's requests of the handshake, and reports whether there is
// nothing more to do for one.
func (h *handshake) write(ctx context.Context, r *jsonrpc.Request, id int64, line []byte) (taken bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r.Method {
	case "server/discover":
		first := h.discover == 0
		h.discover = id
		switch {
		case !first:
		case h.old:
			h.held = line
			return true, h.initialize(ctx, oldProtocol)
		default:
			time.AfterFunc(discoverPatience, h.hurry)
		}
	case "initialize":
		h.waiting = id
		switch {
		case h.answered():
			h.pass()
		case !h.sent:
			return true, h.initialize(ctx, oldProtocol)
		}
		return true, nil
	default:
		h.over = true
	}
	return false, nil
}

// hurry sends initialize to a server that has not answered server/discover.
func (h *handshake) hurry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sent && h.s.tap.waits(h.discover) {
		_ = h.initialize(context.Background(), oldProtocol) // a broken connection ends the session
	}
}

// initialize sends the request. It is called under mu.
func (h *handshake) initialize(ctx context.Context, version string) error {
	h.sent, h.versions = true, append(h.versions, version)
	return h.s.enqueue(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{"form":{}}},"clientInfo":%s}}`+"\n",
		initializeID, version, h.identity))
}

// receive takes the answer to our initialize, and reports whether the line was one.
func (h *handshake) receive(line []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sent || h.over || h.answered() {
		return false
	}
	var m envelope
	if json.Unmarshal(line, &m) != nil || strings.Trim(string(m.ID), `"`) != strconv.Itoa(initializeID) || m.Method != "" {
		return false
	}
	if m.Result == nil && m.Error == nil {
		m.Error = json.RawMessage(`{"code":-32603,"message":"the answer has no result"}`)
	}
	h.s.tap.hear()
	h.decide(m)
	return true
}

// answered reports whether initialize is. It is called under mu.
func (h *handshake) answered() bool { return h.answer != nil || h.refused != nil }

// decide acts on the answer to initialize. It is called under mu.
func (h *handshake) decide(m envelope) {
	newer := false
	if m.Error != nil {
		refused := refusal(m.Error)
		version, _ := refused.era()
		if version != "" && version <= oldProtocol && !slices.Contains(h.versions, version) {
			_ = h.initialize(context.Background(), version)
			return
		}
		newer = refused.newer() || refused.Unknown()
	}
	h.answer, h.refused = m.Result, m.Error
	switch {
	case h.waiting != 0:
		h.pass()
	case !h.s.tap.waits(h.discover): // the server has answered it
	case !newer:
		h.mute = true
		go h.s.pass(h.s.tap.fail(h.discover, errNoDiscover))
	case h.held != nil:
		_ = h.s.enqueue(context.Background(), h.held)
		h.held = nil
	}
}

// pass has the SDK read the answer to its initialize. It is called under mu.
func (h *handshake) pass() {
	key, value := "result", h.answer
	if h.refused != nil {
		key, value = "error", h.refused
	}
	go h.s.pass(h.s.tap.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%q:%s}`, h.waiting, key, value)))
}

// ignored reports whether the server answered initialize and not server/discover.
func (h *handshake) ignored() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mute
}

// newer reports whether the refusal is of a server that speaks the newer era only.
func (r *Refusal) newer() bool {
	version, named := r.era()
	return named && (version == "" || version > oldProtocol)
}

// era is what a refusal says of protocol versions: whether it is about them, and the
// newest of those that the server names and we know.
func (r *Refusal) era() (version string, named bool) {
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
