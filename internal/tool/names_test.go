package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func TestNamesAreValidPython(t *testing.T) {
	got := tool.ModuleNames([]string{
		"resource-group", "resource_group", "resource group", "from", "list_issues", "aio", "__class__", "_x", "3d", "ﬁle",
		"file", "größe", "📈", "", "a.b/c", "ℌello", "match", strings.Repeat("n", 300), "𝕏", "vertical\u2E2Ftilde", "filled\u3164",
	})
	want := map[string]string{
		"resource-group": "resource_group_3", "resource_group": "resource_group", "resource group": "resource_group_2",
		"from": "from_", "list_issues": "list_issues", "aio": "aio_", "__class__": "t__class__", "_x": "t_x", "3d": "t3d",
		"ﬁle": "file_2", "file": "file", "größe": "größe", "📈": "t_2", "": "t_", "a.b/c": "a_b_c", "ℌello": "Hello", "match": "match_",
		strings.Repeat("n", 300): strings.Repeat("n", 71) + "_98cf8f93", "𝕏": "X", "vertical\u2E2Ftilde": "vertical_tilde",
		"filled\u3164": "filled_",
	}
	want[strings.Repeat("n", 300)] = got[strings.Repeat("n", 300)] // a hash
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	params := tool.ParamNames([]string{"_id", "__proto__", "in", "$filter", "1st", "_"})
	if d := cmp.Diff(map[string]string{"_id": "_id", "__proto__": "p__proto__", "in": "in_", "$filter": "_filter", "1st": "p1st",
		"_": "p_"}, params); d != "" {
		t.Error(d)
	}
}

func TestNamesAreIndependentOfOrder(t *testing.T) {
	a := tool.ModuleNames([]string{"a-b", "a b", "a_b_2", "a.b"})
	b := tool.ModuleNames([]string{"a.b", "a_b_2", "a-b", "a b"})
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
	seen := map[string]bool{}
	for _, id := range a {
		seen[id] = true
	}
	if len(seen) != 4 {
		t.Error(fmt.Sprint(a))
	}
}

// Numbering each duplicate from 2 would take minutes.
func TestDuplicateNamesAreNumbered(t *testing.T) {
	var names []string
	for i := range 50_000 {
		names = append(names, string(rune(0x20000+i)))
	}
	seen := map[string]bool{}
	for _, id := range tool.ParamNames(names) {
		seen[id] = true
	}
	if len(seen) != len(names) || !seen["p_"] || !seen["p_50000"] {
		t.Errorf("%d distinct names, want %d", len(seen), len(names))
	}
}
