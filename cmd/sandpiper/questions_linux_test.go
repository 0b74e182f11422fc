package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// trigger calls the tool of a third-party server that asks a question.
const trigger = `{"code":"from servers.everything import trigger_elicitation_request\nresult = ` +
	`str(trigger_elicitation_request())","timeout_seconds":120}`

// formClient is a client over stdio that writes and reads single messages.
type formClient struct {
	*served
	meta      string       // of every request
	heard     *logtest.Log // every byte of output, including the log
	cancelled []string     // IDs of the requests that the daemon cancelled, in the messages read so far
}

// clientMessage is a message to the client.
type clientMessage struct {
	ID     json.RawMessage
	Method string
	Params form
	Result struct {
		Content  []struct{ Text string }
		IsError  bool
		State    string                           `json:"requestState"`
		Requests map[string]struct{ Params form } `json:"inputRequests"`
	}
}

type form struct {
	Request json.RawMessage `json:"requestId"` // of a cancellation
	Message string
	Schema  struct {
		Properties map[string]any
		Required   []string
	} `json:"requestedSchema"`
}

func newFormClient(t *testing.T, modules wiretest.Modules, version, capabilities string) *formClient {
	t.Helper()
	home := t.TempDir()
	return connect(t, home, npmServers(modules, home), version, capabilities)
}

// connect starts a daemon with a configuration in its own directory.
func connect(t *testing.T, home, text, version, capabilities string, args ...string) *formClient {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return connectTo(t, home, version, capabilities, args...)
}

// connectTo is connect with the configuration that is there.
func connectTo(t *testing.T, home, version, capabilities string, args ...string) *formClient {
	t.Helper()
	s := &served{t: t, cmd: sandpiper(home, append([]string{"serve"}, args...)...)}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &formClient{served: s, heard: &logtest.Log{}}
	s.cmd.Stderr = p.heard
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.in, s.out = in, bufio.NewScanner(io.TeeReader(out, p.heard))
	s.out.Buffer(nil, 64<<20)
	if version == "2026-07-28" {
		p.meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
			capabilities + `,"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"progressToken":"p"}`
		return p
	}
	p.meta = `,"_meta":{"progressToken":"p"}`
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"t","version":"1"}}}`, version, capabilities))
	p.nextMessage()
	p.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

// sendCall sends a call of a tool; the caller reads the answer.
func (p *formClient) sendCall(tool, args, more string) {
	p.id++
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s%s}}`, p.id, tool, args, more,
		p.meta))
}

// nextMessage returns the next message that is not a notification.
func (p *formClient) nextMessage() (m clientMessage) {
	p.t.Helper()
	for m.ID == nil {
		m = p.readMessage()
	}
	return m
}

// readMessage returns the next message, and records the request that it cancels.
func (p *formClient) readMessage() (m clientMessage) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatal("the daemon has died")
	}
	if err := json.Unmarshal(p.out.Bytes(), &m); err != nil {
		p.t.Fatalf("%s: %v", p.out.Text(), err)
	}
	if m.Method == "notifications/cancelled" {
		p.cancelled = append(p.cancelled, string(m.Params.Request))
	}
	return m
}

// checkTriggered checks that a question is the server's, with all its fields, of which one
// is required and has no default.
func (q form) checkTriggered(t *testing.T) {
	t.Helper()
	if want := "The tool everything.trigger-elicitation-request, which the code called, asks: Please provide inputs"; !strings.HasPrefix(q.Message, want) {
		t.Errorf("asked %q", q.Message)
	}
	if len(q.Schema.Properties) < 10 || fmt.Sprint(q.Schema.Required) != "[name]" {
		t.Errorf("%+v", q.Schema)
	}
}

// provided checks that the server received the answers and the defaults.
func provided(t *testing.T, m clientMessage) {
	t.Helper()
	for _, want := range []string{`"success":true`, "Name: Ada", "Favorite Integer: 42", "Favorite Number: 3.14"} {
		if len(m.Result.Content) != 1 || !strings.Contains(m.Result.Content[0].Text, want) {
			t.Errorf("no %q in %+v", want, m.Result)
		}
	}
}

// TestServerQuestionReachesClient checks that a question of a third-party server during a
// call reaches the client, in each protocol version.
func TestServerQuestionReachesClient(t *testing.T) {
	t.Parallel()
	modules := wiretest.Installed(t, ".bin/mcp-server-everything")
	needSandbox(t)
	t.Run("while the call is open", func(t *testing.T) {
		p := newFormClient(t, modules, "2025-11-25", `{"elicitation":{}}`)
		p.sendCall("execute_code", trigger, "")
		m := p.nextMessage()
		m.Params.checkTriggered(t)
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ada"}}}`, m.ID))
		provided(t, p.nextMessage())
		p.sendCall("execute_code", trigger, "")
		m = p.nextMessage()
		time.Sleep(readingTime)
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, m.ID))
		if text := p.nextMessage().Result.Content[0].Text; !strings.Contains(text, "User declined") {
			t.Errorf("declined: %s", text)
		}
	})
	t.Run("by the answer", func(t *testing.T) {
		p := newFormClient(t, modules, "2026-07-28", `{"elicitation":{"form":{}}}`)
		p.sendCall("execute_code", trigger, "")
		m := p.nextMessage()
		m.Result.Requests["q1"].Params.checkTriggered(t)
		p.sendCall("execute_code", trigger, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q1":{"action":"accept","content":{"name":"Ada"}}}`, m.Result.State))
		provided(t, p.nextMessage())
	})
	t.Run("by resume_execution", func(t *testing.T) {
		p := newFormClient(t, modules, "2025-11-25", `{}`)
		p.sendCall("execute_code", trigger, "")
		var suspended struct {
			ID        string `json:"execution_id"`
			Questions []struct{ From, Question string }
		}
		if err := json.Unmarshal([]byte(p.nextMessage().Result.Content[0].Text), &suspended); err != nil || len(suspended.Questions) != 1 ||
			suspended.Questions[0].From != "everything.trigger-elicitation-request" {
			t.Fatalf("%+v %v", suspended, err)
		}
		p.sendCall("resume_execution", fmt.Sprintf(`{"execution_id":%q,"answer":{"name":"Ada"}}`, suspended.ID), "")
		provided(t, p.nextMessage())
	})
}
