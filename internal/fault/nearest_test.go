package fault_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func TestNearest(t *testing.T) {
	names := []string{"timeout_seconds", "memory_mb", "code", "context_vars", "id"}
	for name, want := range map[string][]string{
		"timeout":                  {"timeout_seconds"},
		"Memory_MB":                {"memory_mb"},
		"codes":                    {"code"},
		"cod":                      {"code"},
		"contextvars":              {"context_vars"},
		"zzzzzz":                   nil,
		strings.Repeat("x", 1<<20): nil,
		"\xff\xfe":                 nil,
		"zz":                       nil,
	} {
		if got := fault.Nearest(name, names, 1); !slices.Equal(got, want) {
			t.Errorf("%.20q: %v, want %v", name, got, want)
		}
	}
	if got := fault.Nearest("ab", []string{"abc", "b", "ab1", "zz"}, 2); !slices.Equal(got, []string{"abc", "ab1"}) {
		t.Errorf("%v", got)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"ab", "ba", 2}, {"naïve", "naive",
			1}, {"🦊a", "a", 1},
	} {
		if got := fault.EditDistance(c.a, c.b); got != c.want {
			t.Errorf("EditDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := fault.EditDistance(c.b, c.a); got != c.want {
			t.Errorf("EditDistance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
