// Package clienttest stands in for the model of an MCP client and records what the client sends to
// it. It implements the parts of four APIs that clients need: messages (Anthropic), responses and
// chat completions (OpenAI), and generateContent (Gemini).
//
// A turn is one answer of the model in a conversation. The model follows a script: the calls of each
// turn, all in one answer; after the last turn it answers "done". The turn is counted in the
// conversation that the client sends, so that a repeated request gets the same answer. Requests
// without tools, such as those for a title, are answered with "done" and not recorded. A Model is safe
// for concurrent use. The package has no expectations: tests have.
package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Call is a call of a tool.
type Call struct {
	Namespace string // of the responses API
	Tool      string
	Args      map[string]any
}

// ToolSearch is the tool with which the responses API searches the tools that the client defers.
const ToolSearch = "tool_search"

// Tool is a tool whose definition the client sends.
type Tool struct {
	Name        string // with its namespace
	Description string
}

// Request describes the request of the client for one turn.
type Request struct {
	Tools   []Tool
	Text    string     // of instructions and messages, without results
	Results [][]string // of the calls of each turn
}

// Has reports whether a tool with that end of its name is in the request.
func (r Request) Has(tool string) bool {
	return slices.ContainsFunc(r.Tools, func(t Tool) bool { return strings.HasSuffix(t.Name, tool) })
}

// add stores the result of a call by the id that the model gave to the call.
func (r *Request) add(id, result string) {
	m := regexp.MustCompile(`^call_(\d+)_(\d+)$`).FindStringSubmatch(id)
	if m == nil {
		return
	}
	turn, _ := strconv.Atoi(m[1])
	call, _ := strconv.Atoi(m[2])
	for len(r.Results) <= turn {
		r.Results = append(r.Results, nil)
	}
	for len(r.Results[turn]) <= call {
		r.Results[turn] = append(r.Results[turn], "")
	}
	r.Results[turn][call] += result
}

// say appends to the text.
func (r *Request) say(text string) { r.Text += text + "\n" }

// Model is a stand-in for a model. It is an http.Handler.
type Model struct {
	script func(Request) []Call

	mu       sync.Mutex
	requests []Request
	unread   []string
}

// New returns a model that makes the calls of each turn.
func New(script ...[]Call) *Model {
	return &Model{script: func(r Request) []Call {
		if len(r.Results) < len(script) {
			return script[len(r.Results)]
		}
		return nil
	}}
}

// Requests returns the requests that had tools.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Unread returns the paths of other APIs that the client called.
func (m *Model) Unread() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.unread)
}

// dialect is an API.
type dialect struct {
	path   *regexp.Regexp
	read   func(body []byte) (r Request, stream bool, err error)
	events func(calls []identified) []event // of a stream
	whole  func(calls []identified) any     // without a stream
}

// identified is a call with the id that its result refers to.
type identified struct {
	Call
	id string
}

// args returns the arguments as JSON.
func (c identified) args() string { return encode(c.Args) }

// event is a server-sent event. name may be empty.
type event struct {
	name string
	data any // a string is sent as it is
}

var dialects = []dialect{
	{regexp.MustCompile(`/messages$`), readMessages, messageEvents, wholeMessage},
	{regexp.MustCompile(`/responses$`), readResponses, responseEvents, nil},
	{regexp.MustCompile(`/chat/completions$`), readChat, chatEvents, wholeChat},
	{regexp.MustCompile(`:(stream)?[gG]enerateContent$`), readContents, contentEvents,
		func(calls []identified) any { return contents(calls) }},
}

// ServeHTTP implements http.Handler.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	i := slices.IndexFunc(dialects, func(d dialect) bool { return r.Method == http.MethodPost && d.path.MatchString(r.URL.Path) })
	if i < 0 {
		m.mu.Lock()
		m.unread = append(m.unread, r.Method+" "+r.URL.Path)
		m.mu.Unlock()
		fmt.Fprint(w, `{"data":[],"models":[],"input_tokens":10,"totalTokens":10}`)
		return
	}
	d := dialects[i]
	q, stream, err := d.read(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var calls []identified
	if len(q.Tools) > 0 {
		m.mu.Lock()
		m.requests = append(m.requests, q)
		m.mu.Unlock()
		for i, c := range m.script(q) {
			calls = append(calls, identified{c, fmt.Sprintf("call_%d_%d", len(q.Results), i)})
		}
	}
	if !stream && !strings.Contains(r.URL.Path, ":stream") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, encode(d.whole(calls)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range d.events(calls) {
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		text, ok := e.data.(string)
		if !ok {
			text = encode(e.data)
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
}

// done is the last answer of the model.
const done = "done"

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // not reached: the values are of this package
	}
	return string(text)
}

// texts returns the texts of a value: of a string, and of members called text, of a list or an object.
func texts(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	return textsOf(v)
}

func textsOf(v any) string {
	var b strings.Builder
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, e := range v {
			b.WriteString(textsOf(e) + "\n")
		}
	case map[string]any:
		for _, key := range []string{"text", "content", "output", "tool_name", "llmContent"} {
			b.WriteString(textsOf(v[key]))
		}
	}
	return b.String()
}
