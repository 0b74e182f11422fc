package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// interceptor filters messages between a connection and the SDK. It takes the results of
// pending requests and passes an empty result to the SDK. It consumes all notifications,
// which the SDK would queue without bound, and limits the number of concurrent server
// requests.
type interceptor struct {
	max            int
	spool          *spool.Spool // nil: answers over max are refused
	invalidMessage func(string)
	listChanges    *ListChanges
	log            *slog.Logger

	unclaimed     unclaimed
	freeing       atomic.Bool   // whether a release of memory is scheduled
	declineLogged atomic.Bool   // whether a declined question was logged
	toolsChanged  chan struct{} // contains one item if the tool list changed

	inFlight
}

type progress struct {
	done, total float64
	message     string
}

type requestKey struct{}

// maxServerRequests bounds the unanswered requests of a server.
const maxServerRequests = 32

func newInterceptor(cfg Config) *interceptor {
	if cfg.InvalidMessage == nil {
		cfg.InvalidMessage = func(string) {}
	}
	if cfg.ListChanges == nil {
		cfg.ListChanges = &ListChanges{}
	}
	return &interceptor{
		max:            cfg.MaxMessage,
		spool:          cfg.Spool,
		invalidMessage: cfg.InvalidMessage,
		listChanges:    cfg.ListChanges,
		log:            cfg.Log,
		toolsChanged:   make(chan struct{}, 1),
		inFlight:       inFlight{pending: map[int64]*request{}, abandoned: map[int64]bool{}, progressTokens: map[int64]*request{}},
	}
}

// envelope is any JSON-RPC message.
type envelope struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// id returns the number in the id of a response; 0, which no request has, if it is none.
func (m envelope) id() int64 {
	id, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// parseEnvelope returns the members of a message, as parts of data, or false if data is no
// JSON object.
func parseEnvelope(data []byte) (m envelope, ok bool) {
	values, ok := rawjson.ValidMembers(data, "id", "method", "params", "result", "error")
	if !ok {
		return m, false
	}
	m = envelope{ID: values[0], Params: values[2], Result: values[3], Error: values[4]}
	m.Method, ok = stringOf(values[1])
	return m, ok
}

// stringOf returns the text of a JSON string; "" if it is absent or null.
func stringOf(v []byte) (text string, ok bool) {
	if v == nil || string(v) == "null" {
		return "", true
	}
	return rawjson.Unquote(v)
}

// receive processes one message and returns what to pass to the SDK, nil for nothing.
func (t *interceptor) receive(data []byte) []byte {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	m, ok := parseEnvelope(data)
	if !ok {
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

// wrapParams encodes all parameters of an elicitation into its message field, which the
// SDK keeps unchanged.
func wrapParams(m envelope) []byte {
	params, _ := json.Marshal(string(m.Params)) // strings always marshal
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"message":%s}}`, m.ID, m.Method, params)
}

// handleResponse stores the result for its caller.
func (t *interceptor) handleResponse(m envelope, data []byte) []byte {
	id := m.id()
	a, known := t.pending[id]
	t.responses++
	delete(t.abandoned, id)
	if !known {
		return nil // late, or unknown
	}
	delete(t.pending, id)
	if a == nil {
		return data
	}
	a.setOutcome(m)
	if a.claims && a.file == nil && len(a.answer) > largeMessage {
		t.unclaimed.add(a, len(a.answer))
	}
	return a.sdkResponse()
}

// setOutcome stores the result or the error of a response.
func (a *request) setOutcome(m envelope) {
	switch {
	case m.Error != nil:
		a.err = parseError(m.Error)
	case m.Result == nil:
		a.err = ErrMalformed
	case isInputRequired(m.Result):
		a.err, a.inputRequired = ErrInputRequired, m.Result
	default:
		a.answer = m.Result
	}
}

// sdkResponse wakes the caller, and returns the response for the SDK if it waits for one.
func (a *request) sdkResponse() []byte {
	switch {
	case a.answered != nil:
		close(a.answered)
		return nil
	case a.inputRequired != nil:
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, a.id)
	case a.err != nil:
		return errorResponse(a.id, a.err)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s}`, a.id, a.sdkResult())
}

// sdkResult returns the result for the SDK: empty, except that a tool list keeps the
// tools that require headers, which the SDK must know.
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
	_ = json.Unmarshal(data, &e) // best effort
	code, _ := e.Code.Int64()
	var message string
	if json.Unmarshal(e.Message, &message) != nil {
		message = string(e.Message)
	}
	return &ServerError{Code: int(code), Message: sanitize.Text(message, maxText), Data: e.Data}
}

// errorResponse returns an error response that ends a request of the SDK.
func errorResponse(id int64, err error) []byte {
	message, _ := json.Marshal(err.Error()) // strings always marshal
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":%s}}`, id, message)
}

// handleNotification processes a notification of the server.
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
		_ = json.Unmarshal(m.Params, &p) // best effort
		token, _ := strconv.ParseInt(strings.Trim(string(p.Token), `"`), 10, 64)
		if a := t.progressTokens[token]; a != nil {
			a.setProgress(progress{p.Progress, p.Total, sanitize.Line(p.Message, 1<<10)})
		}
	case "notifications/message":
		t.log.Debug("log message of an upstream server", "message", sanitize.Line(string(m.Params), 1<<10))
	}
}

// setProgress replaces progress that was not read yet. Only one goroutine calls it at a
// time.
func (a *request) setProgress(p progress) {
	select {
	case <-a.progress:
	default:
	}
	a.progress <- p
}

// freeAfter is the delay between an oversized message and the release of its memory;
// messages within the delay share one release.
const freeAfter = time.Second

// scheduleFree returns the memory of an oversized message to the system; otherwise the
// process would keep it for minutes.
func (t *interceptor) scheduleFree() {
	if t.freeing.CompareAndSwap(false, true) {
		time.AfterFunc(freeAfter, func() {
			t.freeing.Store(false)
			debug.FreeOSMemory()
		})
	}
}
