package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// tap stands between a connection and the SDK. It takes the results of the
// requests that it knows, and gives the SDK an empty one in the place of each.
// It swallows all notifications, of which the SDK would keep any number, and
// lets only so many requests of the server through at a time.
type interceptor struct {
	max            int
	invalidMessage func(string)
	listChanges    *ListChanges
	log            *slog.Logger

	freeing       atomic.Bool   // whether memory is about to be returned
	declineLogged atomic.Bool   // whether there was a question that nobody was asked
	toolsChanged  chan struct{} // has one item if the list of tools changed

	mu             sync.Mutex
	pending        map[int64]*request // requests under way; nil for one of the SDK's own
	progressTokens map[int64]*request // those that hear of progress
	abandoned      map[int64]bool     // those given up that may still be going on
	lastToken      int64
	serverRequests int    // requests of the server that are not answered yet
	received       bool   // whether there was any message
	responses      uint64 // of answers, to whatever was asked
	closed         bool   // whether the server has closed the connection
}

// ask is a request whose answer is taken.
type request struct {
	method    string
	id, token int64
	answer    json.RawMessage // the result
	err       error           // why there is none, if the tap knows
	progress  chan progress   // has the latest only; nil if nobody listens

	ask           func(context.Context, tool.Question) (tool.Reply, error) // nil if nobody can be asked
	ctx           context.Context                                          // ends with the request
	questions     sync.WaitGroup                                           // that are open
	questionCount atomic.Int64                                             // of questions
	inputRequired json.RawMessage                                          // a result that is not the last, beside ErrAsks
	rounds        int                                                      // of those
	declined      error                                                    // why a question was; nil if none was
	declinedOwn   bool                                                     // whether that was one of this call for certain
}

// ofTenant tells whether somebody asked for it whom others must not hear of; the
// list of tools belongs to nobody.
func (a *request) forTenant() bool { return a != nil && a.method != "tools/list" }

type progress struct {
	done, total float64
	message     string
}

type requestKey struct{}

// maxAsked is how many requests of a server may wait for our answer.
const maxServerRequests = 32

func newInterceptor(cfg Config) *interceptor {
	if cfg.InvalidMessage == nil {
		cfg.InvalidMessage = func(string) {}
	}
	if cfg.ListChanges == nil {
		cfg.ListChanges = &ListChanges{}
	}
	return &interceptor{max: cfg.MaxMessage, invalidMessage: cfg.InvalidMessage, listChanges: cfg.ListChanges, log: cfg.Log, toolsChanged: make(chan struct{}, 1),
		pending: map[int64]*request{}, abandoned: map[int64]bool{}, progressTokens: map[int64]*request{}}
}

// sending notes a request that leaves. Whose it is stands in its context.
func (t *interceptor) register(ctx context.Context, id int64) {
	a, _ := ctx.Value(requestKey{}).(*request)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending[id] = a
	if a != nil {
		a.id, a.answer, a.err, a.inputRequired = id, nil, nil, nil // there may have been a round before
	}
}

// answered notes that a request of the server has its answer.
func (t *interceptor) serverRequestDone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serverRequests--
}

// forget drops what is kept for a. What was not answered may still go on.
func (t *interceptor) forget(a *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[a.id].forTenant() {
		t.abandoned[a.id] = true
	}
	delete(t.pending, a.id)
	delete(t.progressTokens, a.token)
}

// listen gives a a token under which progress is told.
func (t *interceptor) newProgressToken(a *request) (token int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastToken++
	t.progressTokens[t.lastToken] = a
	a.token, a.progress = t.lastToken, make(chan progress, 1)
	return t.lastToken
}

// envelope is what every message is.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// receive looks at one message and returns what the SDK is to see of it, if
// anything.
func (t *interceptor) receive(data []byte) []byte {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	var m envelope
	if err := json.Unmarshal(data, &m); err != nil {
		return t.handleInvalid(data)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received = true
	switch {
	case m.Method != "" && m.ID == nil:
		t.handleNotification(m)
		return nil
	case m.Method != "":
		if t.serverRequests >= maxServerRequests {
			return nil
		}
		t.serverRequests++
		if m.Method == "elicitation/create" {
			return wrapParams(m)
		}
		return data
	}
	return t.handleResponse(m, data)
}

// whole has all that a server asks in the place of its text, where the SDK keeps
// it as it is.
func wrapParams(m envelope) []byte {
	params, _ := json.Marshal(string(m.Params)) // a string can be
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"message":%s}}`, m.ID, m.Method, params)
}

// take keeps the result for who asked.
func (t *interceptor) handleResponse(m envelope, data []byte) []byte {
	id, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64)
	a, known := t.pending[id]
	t.responses++
	delete(t.abandoned, id)
	if err != nil || !known {
		return nil // it is too late, or was never asked
	}
	delete(t.pending, id)
	switch {
	case a == nil:
		return data
	case m.Error != nil:
		a.err = parseError(m.Error)
		return errorResponse(id, a.err)
	case m.Result == nil:
		a.err = ErrMalformed
		return errorResponse(id, a.err)
	case isInputRequired(m.Result):
		a.err, a.inputRequired = ErrInputRequired, m.Result
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
	}
	a.answer = m.Result
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s}`, id, a.sdkResult())
}

// remainder is what the SDK gets as a result: nothing, but of a list the tools
// that want some arguments as headers, which it has to know of.
func (a *request) sdkResult() []byte {
	var list struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if a.method != "tools/list" || json.Unmarshal(a.answer, &list) != nil {
		return []byte(`{}`)
	}
	tools := slices.DeleteFunc(list.Tools, func(t json.RawMessage) bool { return !wantsHeaders(t) })
	return fmt.Appendf(nil, `{"tools":[%s]}`, bytes.Join(rawBytes(tools), []byte(",")))
}

func rawBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, item := range list {
		out[i] = item
	}
	return out
}

func wantsHeaders(tool json.RawMessage) bool { return bytes.Contains(tool, []byte(`"x-mcp-header"`)) }

func isInputRequired(result json.RawMessage) bool {
	if !bytes.Contains(result, []byte(`"input_required"`)) {
		return false
	}
	var r struct {
		ResultType string `json:"resultType"`
	}
	return json.Unmarshal(result, &r) == nil && r.ResultType == "input_required"
}

func parseError(data json.RawMessage) *ServerError {
	var e struct {
		Code    json.Number     `json:"code"`
		Message json.RawMessage `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal(data, &e) // as much as can be read
	code, _ := e.Code.Int64()
	var message string
	if json.Unmarshal(e.Message, &message) != nil {
		message = string(e.Message)
	}
	return &ServerError{Code: int(code), Message: sanitize.Text(message, maxText), Data: e.Data}
}

// failed is an error as an answer, for the SDK to end a request with.
func errorResponse(id int64, err error) []byte {
	message, _ := json.Marshal(err.Error()) // a string can be
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":%s}}`, id, message)
}

// notified hears what a server tells without being asked.
func (t *interceptor) handleNotification(m envelope) {
	switch m.Method {
	case "notifications/tools/list_changed":
		select {
		case t.toolsChanged <- struct{}{}:
		default:
		}
	case "notifications/resources/list_changed":
		t.listChanges.Resources.Add(1)
	case "notifications/prompts/list_changed":
		t.listChanges.Prompts.Add(1)
	case "notifications/progress":
		var p struct {
			Token    json.RawMessage `json:"progressToken"`
			Progress float64         `json:"progress"`
			Total    float64         `json:"total"`
			Message  string          `json:"message"`
		}
		_ = json.Unmarshal(m.Params, &p) // as much as can be read
		token, _ := strconv.ParseInt(strings.Trim(string(p.Token), `"`), 10, 64)
		if a := t.progressTokens[token]; a != nil {
			a.setProgress(progress{p.Progress, p.Total, sanitize.Line(p.Message, 1<<10)})
		}
	case "notifications/message":
		t.log.Debug("a server logs", "message", sanitize.Line(string(m.Params), 1<<10))
	}
}

// tell replaces what the listener has not heard yet. There is one teller at a
// time.
func (a *request) setProgress(p progress) {
	select {
	case <-a.progress:
	default:
	}
	a.progress <- p
}

// freeAfter is how long after a message that was too large its memory is returned:
// once for all such messages of that time.
const freeAfter = time.Second

// free returns to the system the memory of a message that was too large, which would
// else stay with the process for minutes.
func (t *interceptor) scheduleFree() {
	if t.freeing.CompareAndSwap(false, true) {
		time.AfterFunc(freeAfter, func() {
			t.freeing.Store(false)
			debug.FreeOSMemory()
		})
	}
}

// end notes that the server has closed the connection.
func (t *interceptor) markClosed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

func (t *interceptor) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// hear notes that the server has sent a message.
func (t *interceptor) markReceived() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received = true
}

func (t *interceptor) hasReceived() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received
}
