package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// ServeProblem speaks with one client of a daemon that cannot start, until in ends or ctx does. The
// instructions and the answers of all tools are the problem: a client shows those, and not what a
// program writes to stderr.
func ServeProblem(ctx context.Context, version string, problem error, in io.Reader, out io.Writer) error {
	rules, err := redact.New(redact.Config{Mode: redact.Off})
	if err != nil {
		return err
	}
	text := "Sandpiper cannot start; tell the user to correct this and to reconnect the server: " + fault.Sentence(problem)
	handle := func(ctx context.Context, _ wire.Call) (redact.Redacted, error) {
		return rules.For(redact.Owner{}).Redact(ctx, redact.Message{Body: failure{Error: text}, Failed: true})
	}
	cfg := wire.Config{Name: "sandpiper", Title: "Sandpiper", Version: version, Caller: "local", Instructions: text}
	for _, name := range []string{"execute_code", "search_tools", "get_tool_definition"} {
		cfg.Tools = append(cfg.Tools, wire.Tool{Name: name, Description: text, Schema: json.RawMessage(`{"type":"object"}`),
			Handle: handle})
	}
	w, err := wire.New(cfg)
	if err != nil {
		return errors.Join(problem, err)
	}
	return w.ServeStdio(ctx, cfg.Caller, in, out)
}
