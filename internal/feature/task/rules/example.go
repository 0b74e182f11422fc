package rules

import (
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
)

// example returns a value of p as a task states it.
func (p parameter) example() string {
	if len(p.enum) > 0 {
		return p.enum[0]
	}
	if p.numeric() {
		return "3"
	}
	stems := wording.Stems(p.name)
	for _, e := range []struct {
		kind wording.Kind
		text string
	}{
		{wording.Proper, "Paris"}, {wording.File, "data.csv"}, {wording.Email, "ada@example.com"}, {wording.Date, "2026-01-31"},
		{wording.WebAddress, "https://example.com"}, {wording.Clock, "09:30"}, {wording.Phone, "+1 555 0100"}, {wording.Expression,
			"5 + 3"},
	} {
		if shared(kindWords[e.kind], stems) {
			return e.text
		}
	}
	return `"text"`
}
