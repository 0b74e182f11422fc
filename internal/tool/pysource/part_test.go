package pysource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

func TestOneLine(t *testing.T) {
	for source, want := range map[string]string{
		"a  +\n  b # it's\n": "a + b",
		"f(a)[b]":            "f(a)[b]",
		"'''a\n  b''' + c":   "'''a\n  b''' + c",
		"(a), (b)":           "(a), (b)",
		"a) + (b":            "(a) + (b)",
	} {
		if got := pysource.OneLine(source); got != want {
			t.Errorf("%q: %q", source, got)
		}
	}
}

func TestInStrings(t *testing.T) {
	source := "a = '''x\n  y'''\n# it's\nb = f\"{c['d']}\"\ne = \"\"\"\n\n\"\"\"\nend"
	if d := cmp.Diff([]bool{false, true, false, false, false, true, true, false}, pysource.InStrings(source)); d != "" {
		t.Error(d)
	}
}
