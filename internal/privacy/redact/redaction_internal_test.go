package redact

import (
	"context"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Views keep different numbers in the order of the scan when others were dropped: values that overlap
// are merged by them.
func TestNumbersOfViewsAreNotReused(t *testing.T) {
	var text strings.Builder
	text.WriteString("[")
	for range maxOpen * 2 {
		text.WriteString(`"\u0041",` + strings.Repeat(`"x",`, 1))
	}
	text.WriteString(`"\u0041 secret",`)
	for range maxOpen * 2 {
		text.WriteString(`"\u0041",`)
	}
	text.WriteString(`"\u0041 secret",`)
	text.WriteString(`"\u0041 secret"]`)
	p := &redaction{turn: func(context.Context, int) (func(), error) { return func() {}, nil }}
	p.find = func(_, text string) (all []detect.Finding) {
		if at := strings.Index(text, "secret"); at >= 0 && !strings.HasPrefix(text, "[") {
			all = append(all, detect.Finding{Start: at, End: at + 6})
		}
		return all
	}
	p.scan("", text.String(), 0)
	if len(p.views) < 4 {
		t.Fatalf("%d views are kept", len(p.views))
	}
	for i, s := range p.views[1:] {
		if s.number <= p.views[i].number {
			t.Errorf("view %d has number %d, after %d", i+1, s.number, p.views[i].number)
		}
	}
}
