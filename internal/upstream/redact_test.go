package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// All content of a failed answer is returned with the error, so secrets must be redacted in all of it.
func TestFailedAnswerIsRedacted(t *testing.T) {
	r := &redactor{}
	r.addSecret("Bearer sesame-open")
	clean := r.redactFailure(tool.Result{
		Parts: []tool.Part{{Kind: tool.Text, Text: "token sesame-open",
			Raw: json.RawMessage(`{"type":"text","text":"token sesame-open"}`)}},
		Structured: json.RawMessage(`{"token":"sesame-open"}`), Meta: json.RawMessage(`{"header":"Bearer sesame-open"}`),
	})
	all := clean.Parts[0].Text + string(clean.Parts[0].Raw) + string(clean.Structured) + string(clean.Meta)
	if strings.Contains(all, "sesame") || strings.Count(all, "[secret]") != 4 {
		t.Errorf("got %s", all)
	}
	if none := r.redactFailure(tool.Result{}); none.Parts != nil || none.Structured != nil || none.Meta != nil {
		t.Errorf("an empty failure became %+v", none)
	}
}

func TestPasswordOfAURLIsSecret(t *testing.T) {
	h := &Host{messages: &messages{redact: &redactor{}}, set: &common{cfg: Config{Resolve: func(_ context.Context, v string) (string,
		error) {
		return strings.ReplaceAll(v, "${PW}", "sesame"), nil
	}}}}
	found, err := h.resolveURL(t.Context(), "https://me:x${PW}@mcp.example/mcp")
	if err != nil || found != "https://me:xsesame@mcp.example/mcp" || !slices.Contains(h.redact.sentForms(), "xsesame") {
		t.Error(found, h.redact.sentForms(), err)
	}
}
