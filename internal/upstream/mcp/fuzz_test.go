package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func tapFor(a *request) *interceptor {
	t := newInterceptor(Config{MaxMessage: 1 << 10, Log: slog.New(slog.DiscardHandler)})
	t.pending[1] = a
	t.progressTokens[1] = &request{progress: make(chan progress, 1)}
	return t
}

// FuzzReceive checks that only JSON is forwarded, and that an answer is stored exactly when its
// request has ended.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","x-mcp-header":1}]}}`, `{"id":"1","result":null}`,
		`{"id":1,"error":{"code":"x","message":5}}`,
		`{"id":1,"error":7}`, `{"method":"notifications/progress","params":{"progressToken":1,"progress":1e400}}`,
		`{"result":{"resultType":"input_required"},"id":1}`,
		`{"jsonrpc":"2.0","id":1,"result":{`, "{\"id\":1,\"result\":\"\xff\"}", `[]`, `null`, ``, `{"result":{,"id":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &request{method: "tools/list", id: 1}
		tap := tapFor(a)
		out := tap.receive(data)
		if out != nil && !json.Valid(out) {
			t.Errorf("forwarded %q", out)
		}
		if over := !tap.isPending(1); over != (a.answer != nil || a.err != nil) || a.answer != nil && !json.Valid(a.answer) {
			t.Errorf("ended: %t, answer %q, %v", over, a.answer, a.err)
		}
	})
}

// FuzzEvents checks that a stream ends with its source and that its lines are bounded.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"id: 1\nevent: message\ndata: {\"id\":1,\ndata: \"result\":{}}\n\n", "data: " + strings.Repeat("x", 2<<10) + "\n\n",
		":\r\n\r\ndata\n\n",
		"event: endpoint\ndata: /x\n\n", "retry: 5\n\nid" + strings.Repeat("i", 70<<10) + "\n", "data: {\"id\":1,\"result\":1}",
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, old bool) {
		out, err := io.ReadAll(newSSEReader(io.NopCloser(bytes.NewReader(data)), tapFor(&request{id: 1}), 0, old))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(out))
		lines.Buffer(nil, len(out)+1)
		for lines.Scan() {
			if len(lines.Bytes()) > 8<<10 {
				t.Errorf("a line of %d bytes", len(lines.Bytes()))
			}
		}
	})
}
