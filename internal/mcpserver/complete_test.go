package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// completion is the answer of completion/complete.
type completion struct {
	Values  []string
	Total   int
	HasMore bool
}

func (p *peer) complete(argument, value string) completion {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"read_workspace_file"},"argument":{"name":%q,"value":%q}}}`, argument, value))
	p.receive()
	var r struct {
		Result struct{ Completion completion }
	}
	if err := json.Unmarshal(p.lines.Bytes(), &r); err != nil {
		p.t.Fatal(err)
	}
	return r.Result.Completion
}

func TestCompletionReturnsAtMost100Values(t *testing.T) {
	p := connect(t, newServer(t, builtin.Standard))
	for i := range 103 {
		p.write(fmt.Sprintf("b%03d-a1", i), "x")
	}
	p.write("a1", "x")
	got := p.complete("filename", "A1")
	if len(got.Values) != 100 || got.Values[0] != "a1" || got.Total != 104 || !got.HasMore {
		t.Errorf("%d of %d values, more: %v, first %q", len(got.Values), got.Total, got.HasMore, got.Values[0])
	}
	if diff := cmp.Diff(completion{[]string{"b102-a1"}, 1, false}, p.complete("filename", "b102")); diff != "" {
		t.Error(diff)
	}
}

// Values are redacted like every other answer, and what was typed may contain tokens.
func TestCompletedValuesAreRedacted(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner,
		Record: func(context.Context, redact.Transfer) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
		execution.Config{Backend: fake.New(fake.Config{}), Privacy: rules}))
	p.write("of ada@example.com.txt", "x")
	got := p.complete("filename", "of ")
	if text := fmt.Sprint(got); len(got.Values) != 1 || strings.Contains(text, "ada@") {
		t.Errorf("got %s", text)
	}
}
