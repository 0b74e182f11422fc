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
