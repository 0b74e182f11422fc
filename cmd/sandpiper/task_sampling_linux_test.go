package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// taskAnswer is the answer of execute_task.
type taskAnswer struct {
	Success  bool
	Result   any
	Error    string
	Hint     string
	Code     string
	Tools    []string
	Attempts []struct{ Code, Error string }
	Usage    struct {
		Model       string
		Requests    int
		InputTokens int `json:"input_tokens"`
		Estimated   bool
	}
}

func readTaskAnswer(t *testing.T, text string) (a taskAnswer) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

// clientModel is the model of a client: its first program has a wrong argument.
type clientModel struct {
	mu    sync.Mutex
	asked []wiretest.Sampling
}

func (m *clientModel) answer(r wiretest.Sampling) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, r)
	argument := "x"
	switch {
	case strings.Contains(r.Prompt, "Reject"):
		return "", errors.New("the person rejected it, key sk-client")
	case strings.Contains(r.Prompt, `no argument "x"`):
		argument = "expression"
	}
	return fmt.Sprintf("```python\nfrom servers.calculator import calculate\nresult = calculate(%s=\"5 + 3\")\n```\n", argument), nil
}

func samplingConfig(t *testing.T, more string) string {
	return fmt.Sprintf("profile: full\nservers:\n  calculator: {command: %s}\n%s", filepath.Join(exampleServers(t), "calculator"), more)
}

// TestTaskWithTheModelOfTheClient checks execute_task with tasks.model sampling, over each
// transport and in each era of the protocol: with requests during a call, and with requests in
// answers.
func TestTaskWithTheModelOfTheClient(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for name, connect := range map[string]func(t *testing.T, c wiretest.Client, config string) *wiretest.Connection{
			"stdio": func(t *testing.T, c wiretest.Client, config string) *wiretest.Connection {
				home := t.TempDir()
				if err := os.WriteFile(filepath.Join(home, "sandpiper.yaml"), []byte(config), 0o600); err != nil {
					t.Fatal(err)
				}
				return c.Start(t, sandpiper(home, "serve"))
			},
			"http": func(t *testing.T, c wiretest.Client, config string) *wiretest.Connection {
				return c.Dial(t, startServing(t, "", config).url)
			},
		} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				m := &clientModel{}
				var progress []string
				c := connect(t, wiretest.Client{Version: version, Model: m.answer, Progress: func(message string) {
					m.mu.Lock()
					defer m.mu.Unlock()
					progress = append(progress, message)
				}}, samplingConfig(t, "tasks: {model: sampling, name: large, max_tokens: 2000}\n"))
				text, failed, err := c.Call("execute_task", map[string]any{"task_description": "Calculate 5 + 3 for ann@example.com",
					"verbose": true})
				if err != nil || failed {
					t.Fatalf("%v: %s", err, text)
				}
				got := readTaskAnswer(t, text)
				u := got.Usage
				if !got.Success || !strings.Contains(text, `"result":{"result":8}`) || len(got.Attempts) != 1 ||
					u.Model != wiretest.SampledModel || u.Requests != 2 || u.InputTokens < 500 || !u.Estimated {
					t.Errorf("%s", text)
				}
				m.mu.Lock()
				if len(m.asked) != 2 {
					t.Fatalf("%+v", m.asked)
				}
				for _, r := range m.asked {
					if r.MaxTokens != 2000 || r.Preferred != "large" || !strings.Contains(r.System, "Python 3.14") ||
						strings.Contains(r.Prompt, "ann@example.com") || !strings.Contains(r.Prompt, "[EMAIL_") {
						t.Errorf("asked %+v", r)
					}
				}
				if !slices.Contains(progress, "running the program") || !slices.Contains(progress, "repairing the program (1 of 3)") {
					t.Errorf("progress: %q", progress)
				}
				m.mu.Unlock()
				text, failed, err = c.Call("execute_task", map[string]any{"task_description": "Reject: calculate 1 + 1"})
				switch {
				case version == "2026-07-28": // the client reports the rejection itself
					if err == nil || !strings.Contains(err.Error(), "rejected") {
						t.Errorf("%v: %s", err, text)
					}
					for range 17 { // more than the tasks that may wait
						if _, _, err := c.Call("execute_task", map[string]any{"task_description": "Reject: calculate 1 + 1"}); err == nil ||
							!strings.Contains(err.Error(), "rejected") {
							t.Fatal(err)
						}
					}
					if text, failed, err := c.Call("execute_task", map[string]any{"task_description": "Calculate 5 + 3"}); err != nil ||
						failed {
						t.Errorf("after rejections: %v: %s", err, text)
					}
				case err != nil || !failed || strings.Contains(text, "sk-client") || !strings.Contains(readTaskAnswer(t, text).Error,
					"the client did not pass the request to its model"):
					t.Errorf("%v: %s", err, text)
				}
			})
		}
	}
}

// A client that calls again without an answer of its model has rejected the request: the task ends at
// once, and its model is not asked again.
func TestTaskEndsWhenTheClientCallsAgainWithoutItsModel(t *testing.T) {
	needSandbox(t)
	config := samplingConfig(t, "tasks: {model: sampling}\n")
	for capabilities, responses := range map[string]string{
		`{"sampling":{}}`:                  "",
		`{"sampling":{},"elicitation":{}}`: `,"inputResponses":{"sample":{"action":"decline"}}`,
	} {
		t.Run(capabilities, func(t *testing.T) {
			t.Parallel()
			p := connect(t, t.TempDir(), config, "2026-07-28", capabilities)
			const args = `{"task_description":"Calculate 5 + 3"}`
			p.sendCall("execute_task", args, "")
			m := p.nextMessage()
			if len(m.Result.Requests) != 1 {
				t.Fatalf("%+v", m)
			}
			p.sendCall("execute_task", args, fmt.Sprintf(`,"requestState":%q%s`, m.Result.State, responses))
			m = p.nextMessage()
			if len(m.Result.Content) != 1 || len(m.Result.Requests) != 0 {
				t.Fatalf("%+v", m.Result)
			}
			if a := readTaskAnswer(t, m.Result.Content[0].Text); a.Success || !strings.Contains(a.Error,
				"the client did not pass the request to its model") || a.Hint == "" {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestTaskWithoutAModelOfTheClient(t *testing.T) {
	needSandbox(t)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := wiretest.Client{Version: version}.Dial(t, startServing(t, "", samplingConfig(t, "tasks: {model: sampling}\n")).url)
			text, failed, err := c.Call("execute_task", map[string]any{"task_description": "Calculate 5 + 3"})
			want := "the client offers no model to write programs with; use a client that supports MCP sampling, or set tasks.model to " +
				"openai, azure, anthropic or none"
			if err != nil || !failed || readTaskAnswer(t, text).Error != want {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}
