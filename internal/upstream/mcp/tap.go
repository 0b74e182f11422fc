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
type tap struct {
	max   int
	noise func(string)
	news  *News
	log   *slog.Logger

	freeing atomic.Bool   // whether memory is about to be returned
	refused atomic.Bool   // whether there was a question that nobody was asked
	changed chan struct{} // has one item if the list of tools changed

	mu     sync.Mutex
	sent   map[int64]*ask // requests under way; nil for one of the SDK's own
	tokens map[int64]*ask // those that hear of progress
	lost   map[int64]bool // those given up that may still be going on
	token  int64
	asked  int    // requests of the server that are not answered yet
	heard  bool   // whether there was any message
	count  uint64 // of answers, to whatever was asked
	over   bool   // whether the server has closed the connection
}

// ask is a request whose answer is taken.
type ask struct {
	method    string
	id, token int64
	answer    json.RawMessage // the result
	err       error           // why there is none, if the tap knows
	progress  chan progress   // has the latest only; nil if nobody listens

	person    func(context.Context, tool.Question) (tool.Reply, error) // nil if nobody can be asked
	until     context.Context                                          // ends with the request
	questions sync.WaitGroup                                           // that are open
	count     atomic.Int64                                             // of questions
	wants     json.RawMessage                                          // a result that is not the last, beside ErrAsks
	rounds    int                                                      // of those
	declined  error                                                    // why a question was; nil if none was
	own       bool                                                     // whether that was one of this call for certain
}

// ofTenant tells whether somebody asked for it whom others must not hear of; the
// list of tools belongs to nobody.
func (a *ask) ofTenant() bool { return a != nil && a.method != "tools/list" }

type progress struct {
	done, total float64
	message     string
}

type askKey struct{}

// maxAsked is how many requests of a server may wait for our answer.
const maxAsked = 32

func newTap(cfg Config) *tap {
	if cfg.Noise == nil {
		cfg.Noise = func(string) {}
	}
	if cfg.News == nil {
		cfg.News = &News{}
	}
	return &tap{max: cfg.MaxAnswer, noise: cfg.Noise, news: cfg.News, log: cfg.Log, changed: make(chan struct{}, 1),
		sent: map[int64]*ask{}, lost: map[int64]bool{}, tokens: map[int64]*ask{}}
}

// sending notes a request that leaves. Whose it is stands in its context.
func (t *tap) sending(ctx context.Context, id int64) {
	a, _ := ctx.Value(askKey{}).(*ask)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[id] = a
	if a != nil {
		a.id, a.answer, a.err, a.wants = id, nil, nil, nil // there may have been a round before
	}
}

// answered notes that a request of the server has its answer.
func (t *tap) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked--
}

// forget drops what is kept for a. What was not answered may still go on.
func (t *tap) forget(a *ask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent[a.id].ofTenant() {
		t.lost[a.id] = true
	}
	delete(t.sent, a.id)
	delete(t.tokens, a.token)
}

// listen gives a a token under which progress is told.
func (t *tap) listen(a *ask) (token int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token++
	t.tokens[t.token] = a
	a.token, a.progress = t.token, make(chan progress, 1)
	return t.token
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
func (t *tap) receive(data []byte) []byte {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	var m envelope
	if err := json.Unmarshal(data, &m); err != nil {
		return t.spoilt(data)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = true
	switch {
	case m.Method != "" && m.ID == nil:
		t.notified(m)
		return nil
	case m.Method != "":
		if t.asked >= maxAsked {
			return nil
		}
		t.asked++
		if m.Method == "elicitation/create" {
			return whole(m)
		}
		return data
	}
	return t.take(m, data)
}

// whole has all that a server asks in the place of its text, where the SDK keeps
// it as it is.
func whole(m envelope) []byte {
	params, _ := json.Marshal(string(m.Params)) // a string can be
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"message":%s}}`, m.ID, m.Method, params)
}

// take keeps the result for who asked.
func (t *tap) take(m envelope, data []byte) []byte {
	id, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64)
	a, known := t.sent[id]
	t.count++
	delete(t.lost, id)
	if err != nil || !known {
		return nil // it is too late, or was never asked
	}
	delete(t.sent, id)
	switch {
	case a == nil:
		return data
	case m.Error != nil:
		a.err = refusal(m.Error)
		return failed(id, a.err)
	case m.Result == nil:
		a.err = ErrMalformed
		return failed(id, a.err)
	case asksForInput(m.Result):
		a.err, a.wants = ErrAsks, m.Result
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
	}
	a.answer = m.Result
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s}`, id, a.remainder())
}

// remainder is what the SDK gets as a result: nothing, but of a list the tools
// that want some arguments as headers, which it has to know of.
func (a *ask) remainder() []byte {
	var list struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if a.method != "tools/list" || json.Unmarshal(a.answer, &list) != nil {
		return []byte(`{}`)
	}
	tools := slices.DeleteFunc(list.Tools, func(t json.RawMessage) bool { return !wantsHeaders(t) })
	return fmt.Appendf(nil, `{"tools":[%s]}`, bytes.Join(raw(tools), []byte(",")))
}

func raw(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, item := range list {
		out[i] = item
	}
	return out
}

func wantsHeaders(tool json.RawMessage) bool { return bytes.Contains(tool, []byte(`"x-mcp-header"`)) }

func asksForInput(result json.RawMessage) bool {
	if !bytes.Contains(result, []byte(`"input_required"`)) {
		return false
	}
	var r struct {
		ResultType string `json:"resultType"`
	}
	return json.Unmarshal(result, &r) == nil && r.ResultType == "input_required"
}

func refusal(data json.RawMessage) *Refusal {
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
	return &Refusal{Code: int(code), Message: sanitize.Text(message, maxText), Data: e.Data}
}

// failed is an error as an answer, for the SDK to end a request with.
func failed(id int64, err error) []byte {
	message, _ := json.Marshal(err.Error()) // a string can be
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":%s}}`, id, message)
}

// notified hears what a server tells without being asked.
func (t *tap) notified(m envelope) {
	switch m.Method {
	case "notifications/tools/list_changed":
		select {
		case t.changed <- struct{}{}:
		default:
		}
	case "notifications/resources/list_changed":
		t.news.Resources.Add(1)
	case "notifications/prompts/list_changed":
		t.news.Prompts.Add(1)
	case "notifications/progress":
		var p struct {
			Token    json.RawMessage `json:"progressToken"`
			Progress float64         `json:"progress"`
			Total    float64         `json:"total"`
			Message  string          `json:"message"`
		}
		_ = json.Unmarshal(m.Params, &p) // as much as can be read
		token, _ := strconv.ParseInt(strings.Trim(string(p.Token), `"`), 10, 64)
		if a := t.tokens[token]; a != nil {
			a.tell(progress{p.Progress, p.Total, sanitize.Line(p.Message, 1<<10)})
		}
	case "notifications/message":
		t.log.Debug("a server logs", "message", sanitize.Line(string(m.Params), 1<<10))
	}
}

// tell replaces what the listener has not heard yet. There is one teller at a
// time.
func (a *ask) tell(p progress) {
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
func (t *tap) free() {
	if t.freeing.CompareAndSwap(false, true) {
		time.AfterFunc(freeAfter, func() {
			t.freeing.Store(false)
			debug.FreeOSMemory()
		})
	}
}

// end notes that the server has closed the connection.
func (t *tap) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *tap) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// hear notes that the server has sent a message.
func (t *tap) hear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = true
}

func (t *tap) wasHeard() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}
