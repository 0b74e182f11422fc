package mcpserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
)

// stdioClient is a client over stdio that can answer questions.
type stdioClient struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
	id  int
}

func newStdioClient(t *testing.T, s *mcpserver.Server) *stdioClient {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeStdio(t.Context(), inR, outW)
		outW.Close()
	}()
	c := &stdioClient{t: t, in: inW, out: bufio.NewScanner(outR)}
	c.out.Buffer(nil, 1<<20)
	t.Cleanup(func() { inW.Close(); <-ended })
	return c
}

type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Message string
		Schema  json.RawMessage `json:"requestedSchema"`
	}
	Error  *struct{ Message string }
	Result struct {
		Content       []struct{ Text string }
		IsError       bool
		ResultType    string
		State         string `json:"requestState"`
		InputRequests map[string]struct {
			Method string
			Params struct {
				Message string
				Schema  json.RawMessage `json:"requestedSchema"`
			}
		}
	}
}

func (c *stdioClient) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *stdioClient) receive() message {
	c.t.Helper()
	var h message
	if !c.out.Scan() {
		c.t.Fatal("the server sent no further message", c.out.Err())
	}
	if err := json.Unmarshal(c.out.Bytes(), &h); err != nil {
		c.t.Fatalf("%s: %v", c.out.Text(), err)
	}
	return h
}

func (c *stdioClient) initialize(capabilities string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"t","version":"1"}}}`, capabilities)
	c.receive()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// call calls a tool; more is appended to its parameters.
func (c *stdioClient) call(tool, args, more string) {
	c.t.Helper()
	c.id++
	c.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, c.id, tool, args, more)
}

const (
	twoQuestions = `{"code":"call ask {\"question\": \"First?\"}\nset first done\ncall ask {\"question\": \"Second?\", \"schema\": ` +
		`{\"type\": \"boolean\"}}"}`
	newer = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}`
	label = "The code that is running asks: "
)

func TestQuestionByElicitation(t *testing.T) {
	c := newStdioClient(t, newServer(t, builtin.Standard))
	c.initialize(`{"elicitation":{}}`)
	c.call("execute_code", twoQuestions, "")
	for _, q := range []struct{ text, content string }{{"First?", `{"answer":"x"}`}, {"Second?", `{"answer":true}`}} {
		h := c.receive()
		if h.Method != "elicitation/create" || h.Params.Message != label+q.text {
			t.Fatalf("message %s %q", h.Method, h.Params.Message)
		}
		c.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":%s}}`, h.ID, q.content)
	}
	if h := c.receive(); !strings.Contains(h.Result.Content[0].Text, `"result":{"action":"accept","value":true}`) {
		t.Errorf("%+v", h.Result)
	}
}

func TestQuestionByInputRequired(t *testing.T) {
	c := newStdioClient(t, newServer(t, builtin.Standard))
	meta := fmt.Sprintf(newer, `{"elicitation":{"form":{}}}`)
	c.call("execute_code", twoQuestions, meta)
	for _, q := range []struct{ text, content string }{{"First?", `{"answer":"x"}`}, {"Second?", `{"answer":true}`}} {
		h := c.receive()
		if h.Result.ResultType != "input_required" || len(h.Result.InputRequests) != 1 || h.Result.State == "" {
			t.Fatalf("%+v", h.Result)
		}
		for id, r := range h.Result.InputRequests {
			if r.Method != "elicitation/create" || r.Params.Message != label+q.text {
				t.Errorf("asked %+v", r)
			}
			// an invalid answer repeats the question
			c.call("execute_code", twoQuestions, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"answer":5}}}%s`, h.Result.State, id, meta))
			if again := c.receive(); again.Result.InputRequests[id].Params.Message != label+q.text {
				t.Errorf("after a wrong answer: %+v", again.Result)
			}
			c.call("execute_code", twoQuestions, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept","content":%s}}%s`,
				h.Result.State, id, q.content, meta))
		}
	}
	if h := c.receive(); h.Result.ResultType != "complete" || !strings.Contains(h.Result.Content[0].Text,
		`"result":{"action":"accept","value":true}`) {
		t.Errorf("%+v", h.Result)
	}
}

func TestForeignRequestStateIsRejected(t *testing.T) {
	meta := fmt.Sprintf(newer, `{"elicitation":{}}`)
	c := newStdioClient(t, newServer(t, builtin.Standard))
	c.call("execute_code", twoQuestions, meta)
	state := c.receive().Result.State
	other := newStdioClient(t, newServer(t, builtin.Standard))
	for name, given := range map[string]string{"of another daemon": state, "changed": "exec_x" + state, "made up": "exec_x.y"} {
		on := c
		if name == "of another daemon" {
			on = other
		}
		on.call("execute_code", twoQuestions, fmt.Sprintf(`,"requestState":%q%s`, given, meta))
		if h := on.receive(); h.Error == nil || !strings.Contains(h.Error.Message, "requestState") {
			t.Errorf("%s: %+v %+v", name, h.Error, h.Result)
		}
	}
}

func TestClientWithoutElicitationGetsSuspendedExecution(t *testing.T) {
	for name, start := range map[string]func(*stdioClient) (meta string){
		"older": func(c *stdioClient) string { c.initialize(`{}`); return "" },
		"newer": func(c *stdioClient) string { return fmt.Sprintf(newer, `{}`) },
		"pages": func(c *stdioClient) string { c.initialize(`{"elicitation":{"url":{}}}`); return "" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newStdioClient(t, newServer(t, builtin.Standard))
			meta := start(c)
			c.call("execute_code", twoQuestions, meta)
			type waits struct {
				Success     bool
				ErrorType   string `json:"error_type"`
				ExecutionID string `json:"execution_id"`
				Result      json.RawMessage
				Questions   []struct{ ID, Question string }
			}
			read := func() (w waits) {
				h := c.receive()
				if err := json.Unmarshal([]byte(h.Result.Content[0].Text), &w); err != nil {
					t.Fatal(err)
				}
				if w.ErrorType == "approval_required" && !strings.Contains(h.Result.Content[0].Text, `"error_source":"sandpiper"`) {
					t.Errorf("the text does not contain the label: %s", h.Result.Content[0].Text)
				}
				return w
			}
			first := read()
			if first.Success || first.ErrorType != "approval_required" || len(first.Questions) != 1 ||
				first.Questions[0].Question != "First?" {
				t.Fatalf("%+v", first)
			}
			resume := func(answer string) {
				c.call("resume_execution", fmt.Sprintf(`{"execution_id":%q%s}`, first.ExecutionID, answer), meta)
			}
			resume("")
			if again := read(); again.ErrorType != "approval_required" || again.Questions[0].Question != "First?" {
				t.Errorf("without an answer: %+v", again)
			}
			resume(`,"answer":"x"`)
			if second := read(); second.ErrorType != "approval_required" || second.Questions[0].Question != "Second?" {
				t.Errorf("%+v", second)
			}
			resume(`,"answer":"not a boolean"`)
			if wrong := read(); wrong.Success || wrong.ExecutionID != "" {
				t.Errorf("a wrong answer: %+v", wrong)
			}
			resume(`,"answer":{"q2":true}`)
			if last := read(); !last.Success || string(last.Result) != `{"action":"accept","value":true}` {
				t.Errorf("%+v", last)
			}
		})
	}
}

func TestSuspendedStepIsListedForItsSession(t *testing.T) {
	c := newStdioClient(t, newServer(t, builtin.Standard))
	c.initialize(`{}`)
	c.call("execute_code", strings.Replace(twoQuestions, "{", `{"session_id":"s",`, 1), "")
	c.receive()
	for args, want := range map[string]int{`{}`: 0, `{"session_id":"s"}`: 1, `{"session_id":"other"}`: 0} {
		c.call("resume_execution", args, "")
		var list struct {
			Success    bool
			Executions []unfinished.Execution
		}
		if text := c.receive().Result.Content[0].Text; json.Unmarshal([]byte(text), &list) != nil || !list.Success ||
			len(list.Executions) != want {
			t.Errorf("%s: %s", args, text)
		}
	}
}
