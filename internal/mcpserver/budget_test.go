package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/workflow/form"
)

// Every client pays these tokens for the list of tools on every turn.
func TestToolListTokenBudget(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for profile, budget := range map[mcpserver.Profile]int{
		mcpserver.Lean: 380, mcpserver.Standard: 900, mcpserver.Full: 2500,
	} {
		total := 0
		privacy, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner, Record: func(context.Context, redact.Transfer) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		cfg := execution.Config{Backend: fake.New(fake.Config{}), Restricted: true, Forms: form.New(form.Config{})} // needs the longer description
		for _, tool := range listTools(t, newServerOf(t, t.TempDir(), mcpserver.Config{Profile: profile, Privacy: privacy}, cfg)) {
			n := tokens.Count(tool.Name + "\n" + tool.Description + "\n" + string(tool.InputSchema))
			t.Logf("%s: %4d %s", profile, n, tool.Name)
			total += n
		}
		if t.Logf("%s: %4d in all", profile, total); total > budget || total == 0 {
			t.Errorf("the tools of %s cost %d tokens, more than %d", profile, total, budget)
		}
	}
}

type listed struct {
	Name, Description string
	InputSchema       json.RawMessage
}

func listTools(t *testing.T, s *mcpserver.Server) []listed {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(t.Context(), inR, outW) }()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, err := io.WriteString(inW, list+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(outR).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Result struct{ Tools []listed } }
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	inW.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return answer.Result.Tools
}
