package cli

import (
	"testing"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":          "plain\ttext\n",
		"\x1b[2Jgone":            `\x1b[2Jgone`,
		"a\rb":                   `a\x0db`,
		"\a\b\x7f":               `\x07\x08\x7f`,
		"\u009b31m":              `\u009b31m`,
		"\u202egnp.exe":          `\u202egnp.exe`,
		"bytes \xff\xfe":         `bytes \xff\xfe`,
		"a real \uFFFD stays \n": "a real \uFFFD stays \n",
		"日本語 ✓":                  "日本語 ✓",
	} {
		if got := Visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
	if got := VisibleName("a\nb\tc"); got != `a\x0ab\x09c` {
		t.Errorf("visibleName lets %q through", got)
	}
}
