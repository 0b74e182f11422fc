package execution_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// answersLarge returns a tool whose answer is stored.
func answersLarge(content string) callerFunc {
	return func(ctx context.Context, c tool.Call) (tool.Result, error) {
		if c.Store == nil {
			return tool.Result{}, fault.New(fault.Exhausted, "sent too much")
		}
		file, err := c.Store(ctx, []byte(content))
		return tool.Result{File: file}, err
	}
}

func TestLargeAnswerIsStored(t *testing.T) {
	for name, c := range map[string]struct{ content, ending, preview string }{
		"JSON": {`{"rows":[` + strings.Repeat(`{"id":7,"name":"x"},`, 100_000) + `{"id":8,"name":"y"}]}`, ".json",
			`"json":true,"preview":{"type":"object","count":1,"keys":[{"name":"rows","type":"array","count":100001,`},
		"text": {strings.Repeat("lörem ipsum, ", 200_000), ".txt",
			`"json":false,"preview":{"type":"string","chars":2600000,"value":"lörem ipsum, `},
	} {
		t.Run(name, func(t *testing.T) {
			home, stranger := newHome(t, "a"), newHome(t, "b")
			s := newSetup(t, execution.Config{Tools: tools(t, answersLarge(c.content))}, fake.Config{}, admit.Config{})
			r := s.run(t, home, callFind)
			var answer struct {
				File struct {
					Path    string
					Bytes   int
					Preview json.RawMessage
				}
			}
			if err := json.Unmarshal(r.Value, &answer); err != nil || !r.Success() || !strings.Contains(string(r.Value), c.preview) {
				t.Fatalf("%+v %v", r, err)
			}
			file := strings.TrimPrefix(answer.File.Path, "/workspace/")
			if !strings.HasPrefix(file, ".results/"+r.ExecutionID+".") || !strings.HasSuffix(file, c.ending) ||
				answer.File.Bytes != len(c.content) {
				t.Errorf("%.300s", r.Value)
			}
			if got := readFile(t, home, file); got != c.content {
				t.Errorf("stored %d bytes, want %d", len(got), len(c.content))
			}
			if got := readFile(t, stranger, file); got != "" {
				t.Error("another tenant has the file")
			}
		})
	}
}

// A large answer is inspected in parts. A forged token is found wherever they end.
func TestLargeAnswerWithTokenIsRefused(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner})
	if err != nil {
		t.Fatal(err)
	}
	const token, size = "[EMAIL_k7q2m9x4d3w8n5rt]", 3 << 20
	home := newHome(t, "a")
	for _, filler := range []string{"x", "x,", "word\n"} {
		for _, at := range []int{0, 1<<19 - 10, 1<<20 - 10, 1<<20 - 8<<10 - 10, 2<<20 - 8<<10 - 10, size - len(token)} {
			content := strings.Repeat(filler, size/len(filler)+1)
			content = content[:at] + token + content[at+len(token):]
			s := newSetup(t, execution.Config{Privacy: rules, Tools: tools(t, answersLarge(content))}, fake.Config{}, admit.Config{})
			if r := s.run(t, home, callFind); r.Success() || len(listFiles(t, home)) > 0 {
				t.Errorf("a token at %d between %q: %.300s", at, filler, r.Value)
			}
		}
	}
}
