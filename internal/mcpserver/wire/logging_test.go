package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// noticeFor returns a notice for one caller.
func noticeFor(t *testing.T, caller, level, text string) Notice {
	t.Helper()
	data, err := gate.Redact(t.Context(), map[string]string{"message": text})
	if err != nil {
		t.Fatal(err)
	}
	return Notice{Level: level, Logger: "test", Data: data, For: func(c string) bool { return c == caller }}
}

func setLevel(level string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":%q}}`, level)
}

// logged returns the level and text of the next log message of a stream.
func (s eventReader) logged() string {
	s.t.Helper()
	for s.lines.Scan() {
		data, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		var m struct {
			Method string
			Params struct {
				Level, Logger string
				Data          json.RawMessage
			}
		}
		if ok && json.Unmarshal([]byte(data), &m) == nil && m.Method == "notifications/message" {
			return m.Params.Level + " " + m.Params.Logger + " " + string(m.Params.Data)
		}
	}
	s.t.Fatal("the stream ended", s.lines.Err())
	return ""
}

func serveLogs(t *testing.T, logs *Logs) (*web, *Server) {
	t.Helper()
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{whoami}, Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	return serveWebOf(t, s.HTTP(HTTPConfig{Verify: verify})), s
}

func TestLogMessagesReachTheirCallerAtItsLevel(t *testing.T) {
	w, s := serveLogs(t, &Logs{Current: func(_ context.Context, caller string) []Notice {
		return []Notice{noticeFor(t, caller, "error", "now "+caller)}
	}})
	streams := map[string]eventReader{}
	for name, header := range map[string][]string{"alice": alice, "bob": bob} {
		connection := w.connect(header...)
		res, err := w.send(t.Context(), http.MethodGet, "", connection...)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		streams[name] = newStream(t, res)
		s.Notify(noticeFor(t, name, "alert", "before a level was chosen"))
		if got := read(t, w.post(t.Context(), setLevel("warning"), connection...)); !strings.Contains(got, `"result":{}`) {
			t.Fatal(got)
		}
	}
	for _, n := range []Notice{noticeFor(t, "alice", "warning", "1"), noticeFor(t, "bob", "warning", "2"),
		noticeFor(t, "alice", "info", "3"), noticeFor(t, "alice", "error", "4"), noticeFor(t, "bob", "emergency", "5")} {
		s.Notify(n)
	}
	for name, want := range map[string][]string{
		"alice": {`error test {"message":"now alice"}`, `warning test {"message":"1"}`, `error test {"message":"4"}`},
		"bob":   {`error test {"message":"now bob"}`, `warning test {"message":"2"}`, `emergency test {"message":"5"}`},
	} {
		for _, message := range want {
			if diff := cmp.Diff(message, streams[name].logged()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestLogLevelsAreChecked(t *testing.T) {
	w, s := serveLogs(t, &Logs{})
	connection := w.connect(alice...)
	for _, bad := range []string{"", "verbose", "Warning"} {
		if got := read(t, w.post(t.Context(), setLevel(bad), connection...)); !strings.Contains(got, "-32602") || !strings.Contains(got,
			"use one of debug, info, notice") {
			t.Errorf("%q: %s", bad, got)
		}
	}
	modernLevel := `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug",` + modern + `}}`
	if got := read(t, w.post(t.Context(), modernLevel, append(alice, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method",
		"logging/setLevel")...)); !strings.Contains(got, "-32601") {
		t.Errorf("2026-07-28: %s", got)
	}
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modern + `}}`
	if got := read(t, w.post(t.Context(), discover, append(alice, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method",
		"server/discover")...)); !strings.Contains(got, `"capabilities":{"prompts":{},"tools":{}}`) {
		t.Errorf("2026-07-28: %s", got)
	}
	if n := len(s.logClients.all); n != 0 {
		t.Errorf("%d clients", n)
	}
}

// A client that does not read, or much happening at once, neither blocks nor fills the memory.
func TestLogMessagesAreLimited(t *testing.T) {
	w, s := serveLogs(t, &Logs{})
	connection := w.connect(alice...)
	read(t, w.post(t.Context(), setLevel("debug"), connection...))
	for i := range 10_000 {
		s.Notify(noticeFor(t, "alice", "error", fmt.Sprint(i)))
	}
	res, err := w.send(t.Context(), http.MethodGet, "", connection...)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	s.logClients.mu.Lock()
	for _, c := range s.logClients.all {
		if c.sent > maxPerMinute || len(c.queue) > maxQueued {
			t.Errorf("%d messages, %d waiting", c.sent, len(c.queue))
		}
		c.sent = 0
	}
	s.logClients.mu.Unlock()
	s.Notify(noticeFor(t, "alice", "error", "last"))
	for stream := newStream(t, res); ; {
		if got := stream.logged(); strings.Contains(got, "messages were dropped") {
			return
		}
	}
}

func TestClosedConnectionGetsNoLogMessages(t *testing.T) {
	w, s := serveLogs(t, &Logs{})
	connection := w.connect(alice...)
	read(t, w.post(t.Context(), setLevel("debug"), connection...))
	res, err := w.send(t.Context(), http.MethodDelete, "", connection...)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	w.http.subscriptions.running.Wait() // hangs if its goroutine does not end
	for n := 1; n > 0; {
		s.logClients.mu.Lock()
		n = len(s.logClients.all)
		s.logClients.mu.Unlock()
	}
}
