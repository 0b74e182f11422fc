package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model/modeltest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// uselessAnswers are answers of a model by a word of the task.
var uselessAnswers = map[string]string{
	"garbage":    "\x00\xff}{ I am sorry, as a model I",
	"nothing":    "",
	"megabyte":   strings.Repeat("0123456789abcde ", 1<<16),
	"truncated":  "```python\nfrom servers.calculator import calculate\nresult = calculate(expre",
	"unknown":    "```python\nfrom servers.calculator import integrate\nresult = integrate(expression=\"x\")\n```",
	"unselected": "```python\nfrom servers.filesystem import write_file\nresult = write_file(path=\"made.txt\", content=\"1\")\n```",
	"dynamic":    "```python\nresult = call_tool(\"filesystem\", \"write\" + \"_file\", path=\"made.txt\", content=\"1\")\n```",
}

func uselessAnswer(prompt string) string {
	for word, text := range uselessAnswers {
		if strings.Contains(prompt, "5 + 3 "+word) {
			return text
		}
	}
	return ""
}

// modelKinds are the kinds of models that write programs.
var modelKinds = []string{"openai", "azure", "anthropic", "sampling"}

// modelSession is a client of a daemon whose tasks use a model.
type modelSession struct {
	*wiretest.Connection
	daemon *daemonProcess
	files  string // directory of the server filesystem
}

// connectWithModel starts a daemon whose tasks use a model of a kind, with four servers.
func connectWithModel(t *testing.T, kind string, answer func(prompt string) string) modelSession {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(modeltest.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	client := wiretest.Client{Version: "2025-11-25"}
	tasks := "{model: sampling}"
	if kind == "sampling" {
		client.Model = func(r wiretest.Sampling) (string, error) { return answer(r.Prompt), nil }
	} else {
		at := modeltest.Serve(t, func(_ int, q modeltest.Question) modeltest.Reply { return modeltest.Reply{Text: answer(q.Prompt)} }).URL
		if kind == "openai" {
			at += "/v1"
		}
		tasks = fmt.Sprintf(`{model: %s, url: %q, name: m, key: "${file:%s}"}`, kind, at, key)
	}
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	servers := exampleServers(t)
	d := startServing(t, "", samplingConfig(t, fmt.Sprintf(`  weather: {command: %s}
  filesystem: {command: %s, args: [%s]}
policy: {rules: [{tool: filesystem.write_file, decision: allow}]}
tasks: %s
`, filepath.Join(servers, "weather"), filepath.Join(servers, "filesystem"), files, tasks)))
	return modelSession{client.Dial(t, d.url), d, files}
}

// usefulAnswer is the answer of a model that solves three tasks. Its first program for one of them has a
// wrong argument.
func usefulAnswer(prompt string) string {
	code := "from servers.calculator import calculate\nresult = calculate(term=\"5 + 3\")"
	switch {
	case strings.Contains(prompt, `no argument "term"`):
		code = "from servers.calculator import calculate\nresult = calculate(expression=\"5 + 3\")"
	case strings.Contains(prompt, "which is warmer"):
		code = "from servers.weather import get_weather\nresult = sorted([\"New York\", \"Paris\"], key=lambda c: " +
			"get_weather(city=c)[\"temperature_c\"])"
	case strings.Contains(prompt, "data.csv"):
		code = "import csv, io\nfrom servers.filesystem import read_file, write_file\nrows = " +
			"csv.DictReader(io.StringIO(read_file(path=\"data.csv\")[\"content\"]))\n" +
			"write_file(path=\"total.txt\", content=str(sum(int(r[\"amount\"]) for r in rows)))"
	}
	return "Here is the program.\n```python\n" + code + "\n```\n"
}

func TestTasksWithEachModel(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	for _, kind := range modelKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := connectWithModel(t, kind, usefulAnswer)
			if err := os.WriteFile(filepath.Join(c.files, "data.csv"), []byte("id,amount\n1,30\n2,12\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for task, want := range map[string]struct {
				result   string
				attempts int
			}{
				"Calculate 5 + 3": {`{"result":8}`, 1},
				"Get weather for New York and Paris, which is warmer?":               {`["`, 0},
				"Read data.csv, sum the amount column, write the total to total.txt": {`{"bytes":2}`, 0},
			} {
				text, failed, err := c.Call("execute_task", map[string]any{"task_description": task, "verbose": true})
				if err != nil || failed {
					t.Errorf("%s: %v: %s", task, err, text)
					continue
				}
				got := readTaskAnswer(t, text)
				if !got.Success || !strings.Contains(text, `"result":`+want.result) || len(got.Attempts) != want.attempts ||
					got.Usage.Requests != want.attempts+1 || got.Usage.InputTokens == 0 {
					t.Errorf("%s: %s", task, text)
				}
			}
			if total, err := os.ReadFile(filepath.Join(c.files, "total.txt")); err != nil || string(total) != "42" {
				t.Errorf("total.txt has %q, %v", total, err)
			}
		})
	}
}

// TestTasksEndWhateverTheModelReturns checks that a task ends with its attempts and their cost,
// that no tool is called that was not selected, and that the key of the model stays in its file.
func TestTasksEndWhateverTheModelReturns(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	for _, kind := range modelKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := connectWithModel(t, kind, uselessAnswer)
			for word := range uselessAnswers {
				text, failed, err := c.Call("execute_task", map[string]any{"task_description": "Calculate 5 + 3 " + word, "verbose": true})
				if err != nil || !failed {
					t.Errorf("%s: %v: %.500s", word, err, text)
					continue
				}
				got := readTaskAnswer(t, text)
				if got.Success || got.Error == "" || len(got.Attempts) < 1 || len(got.Attempts) > 4 || got.Usage.Requests < 1 ||
					len(text) > 64<<10 {
					t.Errorf("%s: %.1000s", word, text)
				}
			}
			if made, err := os.ReadDir(c.files); err != nil || len(made) != 0 {
				t.Errorf("a tool that was not selected was called: %v, %v", made, err)
			}
			if strings.Contains(c.daemon.log.String(), modeltest.Key) {
				t.Errorf("the log has the key:\n%s", c.daemon.log)
			}
			lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil || len(lines) == 0 {
				t.Fatal(lines, err)
			}
			for _, line := range lines {
				if text, _ := os.ReadFile(line); strings.Contains(string(text), modeltest.Key) {
					t.Errorf("%s has the key: %q", line, text)
				}
			}
		})
	}
}
