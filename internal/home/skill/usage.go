package skill

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// maxUsage limits the functions of a Saved message.
const maxUsage = 8

// Saved is the message after a skill was saved: how code imports and calls it.
func Saved(name, code string) string {
	m := pysource.Parse([]byte(code))
	text := "Skill '" + name + "' saved: from skills import " + name
	var calls []string
	if f, ok := m.Find(name); ok {
		calls = append(calls, f.Signature())
	} else {
		for _, f := range m.Functions[:min(len(m.Functions), maxUsage)] {
			calls = append(calls, name+"."+f.Signature())
		}
	}
	if len(calls) > 0 {
		text += "; " + strings.Join(calls, ", ")
	}
	return text
}
