// Package modeltest provides a model endpoint for tests. It implements the streaming
// protocols of chat completions (OpenAI, and Azure OpenAI in its current and its older
// form) and of Anthropic's messages, and can be made to fail.
//
// It rejects requests that the real endpoints reject: a wrong key, an unknown parameter,
// a missing version. What it answers is decided by a function of the test. An Endpoint is
// safe for concurrent use.
package modeltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Key is the only key that the endpoint accepts.
const Key = "sk-test-0123456789abcdef"

// OldAzure is a version of Azure's API that rejects newer parameters.
const OldAzure = "2024-08-01-preview"

// Question is a request as the endpoint got it.
type Question struct {
	Path, Model, System, Prompt string
	MaxTokens                   int
	Old                         bool // without newer parameters
}

// Reply describes the response of the endpoint.
type Reply struct {
	Text       string
	Stop       string // as in chat completions: length, content_filter, tool_calls; "" means stop
	Status     int    // 0 means 200
	Code       string // of an error with Status, or in the stream if that is 0
	RetryAfter string
	NoUsage    bool
	Cut        bool   // close the connection after half of the text
	Hang       bool   // send nothing until the client leaves
	Raw        string // the body, instead of events
}

// Endpoint is an HTTP server on the loopback interface.
type Endpoint struct {
	URL string

	answer func(n int, q Question) Reply
	mu     sync.Mutex
	asked  []Question
}

// Serve starts an endpoint that is closed at the end of the test. The function answers
// request n, from 0.
func Serve(t testing.TB, answer func(n int, q Question) Reply) *Endpoint {
	e := &Endpoint{answer: answer}
	s := httptest.NewServer(e)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	e.URL = s.URL
	return e
}

// Asked returns the requests that had the right key and form.
func (e *Endpoint) Asked() []Question {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Question(nil), e.asked...)
}

// request has the fields of both protocols.
type request struct {
	Model    string
	System   string // of messages
	Messages []struct{ Role, Content string }
	Stream   bool
	Options  *struct {
		Include bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens int `json:"max_tokens"`
	NewMax    int `json:"max_completion_tokens"`
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body request
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	if err := in.Decode(&body); err != nil || r.Method != http.MethodPost || body.Model == "" || !body.Stream {
		fail(w, http.StatusBadRequest, "invalid_request_error", fmt.Sprint("bad request: ", err))
		return
	}
	q := Question{Path: r.URL.Path, Model: body.Model, MaxTokens: cmp.Or(body.NewMax, body.MaxTokens), Old: body.NewMax == 0}
	status, message := 0, ""
	messages := r.URL.Path == "/v1/messages"
	if messages {
		status, message = q.anthropic(r, body)
	} else {
		status, message = q.openAI(r, body)
	}
	if status != 0 {
		fail(w, status, "invalid_request_error", message)
		return
	}
	e.mu.Lock()
	n := len(e.asked)
	e.asked = append(e.asked, q)
	e.mu.Unlock()
	e.reply(w, r, e.answer(n, q), messages)
}

// openAI reads a chat completion, and returns a status if it is invalid.
func (q *Question) openAI(r *http.Request, body request) (int, string) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.URL.Path == "/v1/chat/completions":
	case r.URL.Path == "/openai/v1/chat/completions", r.URL.Path == "/openai/deployments/"+body.Model+"/chat/completions" && r.URL.Query().
		Get("api-version") != "":
		key = r.Header.Get("Api-Key")
	default:
		return http.StatusNotFound, "no such path"
	}
	old := r.URL.Query().Get("api-version") == OldAzure
	switch {
	case key != Key:
		return http.StatusUnauthorized, "Incorrect API key provided: " + key
	case old && body.NewMax != 0:
		return http.StatusBadRequest, "Unrecognized request argument supplied: max_completion_tokens"
	case old && body.Options != nil:
		return http.StatusBadRequest, "Unrecognized request argument supplied: stream_options"
	case body.System != "" || len(body.Messages) != 2 || body.Messages[0].Role != "system" || body.Messages[1].Role != "user":
		return http.StatusBadRequest, "messages"
	}
	q.System, q.Prompt = body.Messages[0].Content, body.Messages[1].Content
	return 0, ""
}

// anthropic reads a message request, and returns a status if it is invalid.
func (q *Question) anthropic(r *http.Request, body request) (int, string) {
	switch {
	case r.Header.Get("X-Api-Key") != Key:
		return http.StatusUnauthorized, "invalid x-api-key " + r.Header.Get("X-Api-Key")
	case r.Header.Get("Anthropic-Version") == "" || body.MaxTokens < 1 || body.NewMax != 0 || body.Options != nil,
		len(body.Messages) != 1 || body.Messages[0].Role != "user":
		return http.StatusBadRequest, "anthropic-version, max_tokens or messages"
	}
	q.System, q.Prompt = body.System, body.Messages[0].Content
	return 0, ""
}

// fail sends an error. Like some real endpoints, it repeats the key.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": code, "message": message + " " + Key}})
}

func (e *Endpoint) reply(w http.ResponseWriter, r *http.Request, a Reply, messages bool) {
	switch {
	case a.Hang:
		<-r.Context().Done()
		return
	case a.Raw != "":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(a.Raw))
		return
	case a.Status != 0:
		if a.RetryAfter != "" {
			w.Header().Set("Retry-After", a.RetryAfter)
		}
		fail(w, a.Status, a.Code, "failed")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	events := chunks
	if messages {
		events = messageEvents
	}
	for _, event := range events(a) {
		_, _ = w.Write([]byte(event))
		_ = http.NewResponseController(w).Flush()
	}
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
}

// parts divides a text into parts as a model generates them.
func (a Reply) parts() (all []string) {
	for text := []rune(a.Text); len(text) > 0; {
		n := min(max(7, len(a.Text)/100), len(text))
		all = append(all, string(text[:n]))
		text = text[n:]
	}
	if a.Cut {
		all = all[:len(all)/2]
	}
	return all
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// tokens that the endpoint reports.
const (
	InputTokens  = 1000
	OutputTokens = 200
)

// chunks are the events of a chat completion.
func chunks(a Reply) []string {
	type object = map[string]any
	chunk := func(v object) string { return "data: " + encode(v) + "\n\n" }
	choice := func(delta object, finish any) string {
		return chunk(object{"object": "chat.completion.chunk",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	all := []string{": keep-alive\n\n", chunk(object{"choices": []any{}, "prompt_filter_results": []any{}}),
		choice(object{"role": "assistant", "content": ""}, nil)}
	for _, part := range a.parts() {
		all = append(all, choice(object{"content": part}, nil))
	}
	if a.Code != "" {
		return append(all, chunk(object{"error": object{"code": a.Code, "message": Key}}))
	}
	if a.Cut {
		return all
	}
	all = append(all, choice(object{}, cmp.Or(a.Stop, "stop")))
	if !a.NoUsage {
		all = append(all, chunk(object{"choices": []any{}, "usage": object{"prompt_tokens": InputTokens,
			"completion_tokens": OutputTokens}}))
	}
	return append(all, "data: [DONE]\n\n")
}

// stops are the names of Anthropic.
var stops = map[string]string{"": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}

// messageEvents are the events of a message.
func messageEvents(a Reply) []string {
	type object = map[string]any
	event := func(kind string, v object) string {
		v["type"] = kind
		return "event: " + kind + "\r\ndata: " + encode(v) + "\r\n\r\n"
	}
	all := []string{
		event("message_start", object{"message": object{"usage": object{"input_tokens": InputTokens - 400, "cache_read_input_tokens": 400,
			"output_tokens": 1}}}),
		event("content_block_start", object{"index": 0, "content_block": object{"type": "thinking", "thinking": ""}}),
		event("content_block_delta", object{"index": 0, "delta": object{"type": "thinking_delta",
			"thinking": "```python\nresult = 0\n```"}}),
		event("content_block_stop", object{"index": 0}),
		event("content_block_start", object{"index": 1, "content_block": object{"type": "text", "text": ""}}),
		event("ping", object{}),
	}
	for _, part := range a.parts() {
		all = append(all, event("content_block_delta", object{"index": 1, "delta": object{"type": "text_delta", "text": part}}))
	}
	if a.Code != "" {
		return append(all, event("error", object{"error": object{"type": a.Code, "message": Key}}))
	}
	if a.Cut {
		return all
	}
	return append(all, event("content_block_stop", object{"index": 1}),
		event("message_delta", object{"delta": object{"stop_reason": cmp.Or(stops[a.Stop], a.Stop)},
			"usage": object{"output_tokens": OutputTokens}}),
		event("message_stop", object{}))
}
