package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// asking is code that writes a file before and after a question.
const asking = `from servers import ledger
first = ledger.add(n=1)
sure = ask("Go on?", {"type": "boolean"})
result = [first, sure, ledger.add(n=2)]`

// TestQuestionSurvivesDaemonRestart asks a question in three kinds of clients, ends the
// daemon in two ways, and answers the question in the next daemon.
func TestQuestionSurvivesDaemonRestart(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, version := range longtest.Rows([]string{"2025-11-25", "2026-07-28"}, 0) {
		for way, end := range map[string]func(*formClient){"kill -9": (*formClient).kill, "its client leaves": (*formClient).closeInput} {
			t.Run(version+", "+way, func(t *testing.T) { testQuestionSurvives(t, version, end) })
		}
	}
}

func testQuestionSurvives(t *testing.T, version string, end func(*formClient)) {
	home := t.TempDir()
	book := filepath.Join(home, "ledger.txt")
	config := fmt.Sprintf("servers:\n  ledger: {command: ledger, args: [%q], trusted: true}\n", book)
	capabilities := `{"elicitation":{"form":{}}}`
	if version == "2025-11-25" {
		capabilities = `{}` // so that the result contains the question
	}
	args, err := json.Marshal(map[string]string{"code": asking})
	if err != nil {
		t.Fatal(err)
	}
	first := connect(t, home, config, version, capabilities)
	first.sendCall("execute_code", string(args), "")
	m := first.nextMessage()
	end(first)

	second := connect(t, home, config, version, capabilities)
	if version == "2025-11-25" {
		var suspended struct {
			ID        string `json:"execution_id"`
			Questions []struct{ ID string }
		}
		if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &suspended); err != nil || len(suspended.Questions) != 1 {
			t.Fatalf("%+v: %v", m, err)
		}
		second.sendCall("resume_execution", fmt.Sprintf(`{"execution_id":%q,"answer":{%q:true}}`, suspended.ID, suspended.Questions[0].ID),
			"")
	} else {
		if len(m.Result.Requests) != 1 {
			t.Fatalf("%+v", m)
		}
		for id := range m.Result.Requests {
			second.sendCall("execute_code", string(args), fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"answer":true}}}`, m.Result.State, id))
		}
	}
	if m = second.nextMessage(); len(m.Result.Content) == 0 || !strings.Contains(m.Result.Content[0].Text, `"result":["1",true,"2"]`) {
		t.Errorf("it came to %+v", m)
	}
	if count := entered(t, book); count[1] != 1 || count[2] != 1 {
		t.Errorf("it was called %v", count)
	}
}

// closeInput ends the connection of the client.
func (p *formClient) closeInput() {
	_ = p.in.(interface{ Close() error }).Close()
	gone := make(chan error, 1)
	go func() { gone <- p.cmd.Wait() }()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		p.t.Error("the daemon does not end with its client")
		_ = p.cmd.Process.Signal(os.Kill)
		<-gone
	}
}
