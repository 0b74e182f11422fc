package clientconfig

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
)

func TestApplyDiff(t *testing.T) {
	numbers := strings.Repeat("0\n", 10) + "1\n2\n3\n4\n5\n6\n7\n8\n9"
	edited := strings.Replace(numbers, "2\n", "two\nand\n", 1)
	for name, tc := range map[string]struct{ from, to, now, want string }{
		"unchanged":              {numbers, edited, numbers, edited},
		"changed elsewhere":      {numbers, edited, "more\n" + strings.Replace(numbers, "8", "eight", 1), "more\n" + strings.Replace(edited, "8", "eight", 1)},
		"context changed":        {numbers, edited, strings.Replace(numbers, "4", "four", 1), strings.Replace(edited, "4", "four", 1)},
		"the same line changed":  {numbers, edited, strings.Replace(numbers, "2", "II", 1), ""},
		"ambiguous":              {numbers, edited, numbers + "\n" + numbers, ""},
		"the last line":          {"a\nb", "a\nc", "a\nb", "a\nc"},
		"line end added":         {"a\nb", "a\nb\n", "a\nb", "a\nb\n"},
		"the last line extended": {"a\nb", "a\nc", "a\nbc", ""},
		"from empty":             {"", "a\n", "b\n", ""},
		"equal":                  {"a\n", "a\n", "a\n", ""},
	} {
		got, ok := applyDiff(tc.now, string(diff.Diff("f", []byte(tc.from), "f", []byte(tc.to))))
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: %q, %t, want %q", name, got, ok, tc.want)
		}
	}
}

// FuzzApplyDiff checks that a diff of two texts changes the first to the second,
// if it applies.
func FuzzApplyDiff(f *testing.F) {
	for _, s := range []string{"", "a\n", "a\nb\nc", "\n\n@@ \n", "\\ No newline at end of file\n"} {
		f.Add(s, s+"x")
		f.Add(s+"x\n", s)
	}
	f.Fuzz(func(t *testing.T, from, to string) {
		got, ok := applyDiff(from, string(diff.Diff("f", []byte(from), "f", []byte(to))))
		if ok && got != to {
			t.Errorf("%q to %q: got %q", from, to, got)
		}
	})
}
