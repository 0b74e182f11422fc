package toolcall_test

import (
	"fmt"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func TestAuditOmitsUnknownNamesOfRefusedCalls(t *testing.T) {
	r := newRig(t)
	for _, c := range []tool.Call{
		call("crm", "send", `{}`),
		call("crm", "ann@example.com", `{}`),
		call("ann@example.com", "send", `{}`),
		call("mail", "post", `{}`),
	} {
		if _, err := r.Caller.Call(t.Context(), c); err == nil {
			t.Errorf("%s is called", c.Ref)
		}
	}
	if len(r.calls) != 0 {
		t.Errorf("called %+v", r.calls)
	}
	var got []string
	for _, l := range r.lines {
		got = append(got, fmt.Sprintf("%s %s.%s %s", l.Kind, l.Server, l.Tool, l.Outcome))
	}
	want := fmt.Sprint([]string{"tool_call crm.send refused", "tool_call crm. refused", "tool_call . refused",
		"tool_call mail.post refused"})
	if fmt.Sprint(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestAuditLinesOfReadsAreBounded(t *testing.T) {
	r := newRig(t)
	for range 1500 {
		if _, err := r.Caller.Call(t.Context(), call("crm", "read", `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.lines); n != 1000 {
		t.Errorf("%d lines", n)
	}
	if _, err := r.Caller.Call(t.Context(), call("crm", "send", `{"to":"ann"}`)); err != nil {
		t.Fatal(err)
	}
	if l := r.lines[len(r.lines)-1]; l.Kind != audit.ToolCall || l.Tool != "send" || l.Outcome != "answered" {
		t.Errorf("a call that changes something has no line: %+v", l)
	}
}
