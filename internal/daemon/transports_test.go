package daemon_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// transports send a request with a token and return the message that answers.
var transports = map[string]func(t *testing.T, url, token, message string) string{
	"2026-07-28": func(t *testing.T, url, token, message string) string {
		t.Helper()
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},`
		var m struct {
			Method string
			Params struct{ Name, URI string }
		}
		if err := json.Unmarshal([]byte(message), &m); err != nil {
			t.Fatal(err)
		}
		message = strings.Replace(message, `"params":{`, `"params":{`+meta, 1)
		message = strings.Replace(message, `,}`, `}`, 1)
		header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", m.Method}
		if name := m.Params.Name + m.Params.URI; name != "" {
			header = append(header, "Mcp-Name", name)
		}
		return answer(t, sendHTTP(t, "POST", url+"/mcp", message, token, header...))
	},
	"2025-11-25": func(t *testing.T, url, token, message string) string {
		t.Helper()
		return answer(t, sendHTTP(t, "POST", url+"/mcp", message, token, connect(t, url, token)...))
	},
	"2024-11-05": func(t *testing.T, url, token, message string) string {
		t.Helper()
		s := openStream(t, url, token)
		s.initialize(t, token)
		s.post(t, message, token)
		return s.response(t)
	},
}

// connect opens a connection of 2025-11-25 and returns the headers of its requests.
func connect(t *testing.T, url, token string) []string {
	t.Helper()
	res := sendHTTP(t, "POST", url+"/mcp", hello, token)
	id := res.Header.Get("Mcp-Session-Id")
	if _, err := io.ReadAll(res.Body); err != nil || id == "" {
		t.Fatal(res.Status, err)
	}
	connection := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"}
	sendHTTP(t, "POST", url+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, token, connection...)
	return connection
}

// answer returns the messages of a response: its body without the ids of events, which are
// random. The answer to a request that is not accepted starts with its status.
func answer(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res.Status + " " + res.Header.Get("Content-Type") + " " + string(body)
	}
	var messages []string
	for line := range strings.Lines(string(body)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "" {
			messages = append(messages, strings.TrimSpace(data))
		}
	}
	return strings.Join(messages, "\n")
}

// stream is a stream of the HTTP+SSE transport of 2024-11-05.
type stream struct {
	lines    *bufio.Scanner
	endpoint string
}

func openStream(t *testing.T, url, token string) *stream {
	t.Helper()
	s := &stream{lines: bufio.NewScanner(sendHTTP(t, "GET", url+"/sse", "", token).Body)}
	s.endpoint = url + s.next(t)
	return s
}

func (s *stream) post(t *testing.T, message, token string) *http.Response {
	t.Helper()
	return sendHTTP(t, "POST", s.endpoint, message, token)
}

func (s *stream) initialize(t *testing.T, token string) {
	t.Helper()
	s.post(t, hello, token)
	s.response(t)
	s.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, token)
}

// response returns the next response. Notifications can precede it.
func (s *stream) response(t *testing.T) string {
	t.Helper()
	for {
		m := s.next(t)
		if !strings.Contains(m, `"method":"notifications/`) {
			return m
		}
	}
}

func (s *stream) next(t *testing.T) string {
	t.Helper()
	for s.lines.Scan() {
		if data, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			return data
		}
	}
	t.Fatal("the stream ended")
	return ""
}
