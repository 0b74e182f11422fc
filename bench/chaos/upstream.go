package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxDelay is the maximum time between the begin of a write, its effect and its answer.
const maxDelay = 12 * time.Millisecond

// Upstream serves MCP over stdio with a tool that writes, add, and one that reads, look. It appends the
// begin, the effect and the answer of each write to a file, on disk before the write continues. faults
// are for tests: "twice" has each effect twice, "hang" answers no write, and "forget" has no effect.
func Upstream(ctx context.Context, file, faults string) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "ledger", Version: "1"}, nil)
	type args struct {
		ID   string  `json:"id"`
		Seen string  `json:"seen,omitempty"` // what look returned; a replay has the same
		By   float64 `json:"by,omitempty"`   // likewise for a random number
	}
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "add"}, func(ctx context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		marks := []string{begin, effect, answer}
		switch faults {
		case "twice":
			marks = []string{begin, effect, effect, answer}
		case "forget":
			marks = []string{begin, answer}
		}
		for i, mark := range marks {
			if i > 0 {
				time.Sleep(rand.N(maxDelay))
			}
			if err := enter(file, mark+" "+a.ID); err != nil {
				return nil, nil, err
			}
		}
		if faults == "hang" {
			<-ctx.Done()
		}
		return text(a.ID), nil, nil
	})
	read := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(s, &mcp.Tool{Name: "look", Annotations: read},
		func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint("at ", time.Now().UnixNano())), nil, nil
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}

// The marks of a write in the file.
const begin, effect, answer = "begin", "effect", "answer"

func enter(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, line); err != nil {
		return err
	}
	return f.Sync()
}

// effects counts the marks of each write.
type effects map[string]map[string]int // by mark and id

func readEffects(file string) effects {
	e := effects{begin: {}, effect: {}, answer: {}}
	text, _ := os.ReadFile(file) // no file: no write
	for line := range strings.Lines(string(text)) {
		if mark, id, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && e[mark] != nil {
			e[mark][id]++
		}
	}
	return e
}

func (e effects) total(mark string) (n int) {
	for _, count := range e[mark] {
		n += count
	}
	return n
}

// phase describes the last write.
func (e effects) phase() string {
	switch b, f, a := e.total(begin), e.total(effect), e.total(answer); {
	case b == 0:
		return "before"
	case b > f:
		return "call"
	case f > a:
		return "effect"
	default:
		return "between"
	}
}
