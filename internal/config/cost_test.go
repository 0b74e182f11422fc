package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestWorkGrowsWithTheFile(t *testing.T) {
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "key_%d: 1\n", i)
		}
		return b.String()
	}
	for name, text := range map[string]func(n int) string{
		"lists":       func(n int) string { return "a: " + strings.Repeat("[", n) + strings.Repeat("]", n) },
		"mappings":    func(n int) string { return strings.Repeat("{a: ", n) + "1" + strings.Repeat("}", n) },
		"unclosed":    func(n int) string { return strings.Repeat("[", n) },
		"on one line": func(n int) string { return strings.Repeat("- ", n) + "x" },
		"keys":        keys,
		"inner keys":  func(n int) string { return "a:\n  " + strings.ReplaceAll(keys(n), "\n", "\n  ") + "\n" },
		"documents":   func(n int) string { return strings.Repeat("---\na\n", n) },
		"servers": func(n int) string {
			return "servers:\n" + strings.ReplaceAll(strings.ReplaceAll(keys(min(n, 1500)), "key", "  k"), ": 1\n",
				":\n    command: a\n    args: [b]\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var used []uint64
			for _, n := range []int{12_000, 24_000, 48_000} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := core.settingsIn("sandpiper.yaml", []byte(text(n)))
				runtime.ReadMemStats(&after)
				if name == "servers" && err != nil {
					t.Fatal(err)
				}
				used = append(used, after.TotalAlloc-before.TotalAlloc)
			}
			if used[2] > 1<<20 && used[2] > 3*used[1] {
				t.Errorf("48,000, 24,000 and 12,000 allocate %d, %d and %d bytes", used[2], used[1], used[0])
			}
		})
	}
}
