package hostcall

import (
	"context"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func TestArgumentsAreDecodedStrictly(t *testing.T) {
	m := New("m", Replayed|Quick, func(_ context.Context, a Name) (any, error) { return a.Name, nil })
	for args, want := range map[string]string{
		`{"name": "x"}`: "x", "": "", " ": "",
		`{"nam": "x"}`: "do not match", `{"name": 1}`: "do not match", `{} {}`: "more than one JSON value",
		strings.Repeat(" ", maxBytes+1): "at most 16777216 are allowed",
	} {
		v, err := m.Handle(t.Context(), []byte(args))
		if err == nil && v != want || err != nil && (want == "" || !strings.Contains(fault.Message(err), want)) {
			t.Errorf("%.20q: %v, %v", args, v, err)
		}
	}
	if !m.Has(Quick) || m.Has(Quick|Taped) || (Method{}).Has(Quick) {
		t.Errorf("%+v", m)
	}
	if got := NewTable([]Method{m}, nil)["m"]; got.Name != "m" {
		t.Errorf("%+v", got)
	}
}
