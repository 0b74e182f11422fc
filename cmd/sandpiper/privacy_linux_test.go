package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recordingClient is a client that records every byte that it receives.
type recordingClient struct {
	*formClient
	read int // number of received bytes that newOutput has returned
}

// privacyCapabilities maps protocol versions to the capabilities of a client: with forms,
// and for the version withoutForms without.
var privacyCapabilities = map[string]string{"2025-11-25": `{"elicitation":{}}`, "2026-07-28": `{"elicitation":{"form":{}}}`,
	withoutForms: `{}`}

const withoutForms = "2025-06-18"

func newRecordingClient(t *testing.T, config, version string, args ...string) *recordingClient {
	t.Helper()
	return &recordingClient{formClient: connect(t, t.TempDir(), config, version, privacyCapabilities[version], args...)}
}

// request sends a request and returns the text of a tool's result, or the whole response.
// It declines all questions in a result.
func (w *recordingClient) request(method string, params map[string]any) string {
	w.t.Helper()
	id := w.send(method, params)
	answer := w.await(id)[id]
	var m struct {
		Result struct {
			Content  []struct{ Text string }
			State    string                     `json:"requestState"`
			Requests map[string]json.RawMessage `json:"inputRequests"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		w.t.Fatalf("%v in %s", err, answer)
	}
	switch {
	case m.Result.Requests != nil:
		time.Sleep(readingTime)
		return w.request(method, declineParams(params, m.Result.State, m.Result.Requests))
	case len(m.Result.Content) > 0:
		return m.Result.Content[0].Text
	}
	return answer
}

// send sends a request and returns its id.
func (w *recordingClient) send(method string, params map[string]any) int {
	w.t.Helper()
	body, err := json.Marshal(params)
	if err != nil {
		w.t.Fatal(err)
	}
	w.id++
	begin := strings.TrimSuffix(string(body), "}")
	if begin == "{" {
		begin = `{"unused":true`
	}
	w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s%s}}`, w.id, method, begin, w.meta))
	return w.id
}

// await returns the responses to some requests. It declines all questions that arrive
// before them.
func (w *recordingClient) await(ids ...int) map[int]string {
	w.t.Helper()
	answers := map[int]string{}
	for len(answers) < len(ids) {
		m := w.nextMessage()
		if m.Method != "" {
			time.Sleep(readingTime)
			w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, m.ID))
		} else if id, err := strconv.Atoi(string(m.ID)); err == nil && slices.Contains(ids, id) {
			answers[id] = w.out.Text()
		}
	}
	return answers
}

// declineParams returns the parameters with which a request is repeated to decline its
// questions.
func declineParams(params map[string]any, state string, asked map[string]json.RawMessage) map[string]any {
	again := map[string]any{"requestState": state}
	replies := map[string]any{}
	for id := range asked {
		replies[id] = map[string]any{"action": "decline"}
	}
	again["inputResponses"] = replies
	for k, v := range params {
		if _, there := again[k]; !there {
			again[k] = v
		}
	}
	return again
}

// call calls a tool and returns the text of its result.
func (w *recordingClient) call(tool string, args map[string]any) string {
	w.t.Helper()
	return w.request("tools/call", map[string]any{"name": tool, "arguments": args})
}

// execute runs code, with more arguments of execute_code in pairs.
func (w *recordingClient) execute(code string, more ...any) (r execAnswer) {
	w.t.Helper()
	args := map[string]any{"code": code, "timeout_seconds": 120}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	text := w.call("execute_code", args)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		w.t.Fatalf("%v in %s", err, text)
	}
	r.raw = text
	return r
}

// newOutput returns the bytes received since its previous call.
func (w *recordingClient) newOutput() string {
	all := w.heard.String()
	defer func() { w.read = len(all) }()
	return all[w.read:]
}
