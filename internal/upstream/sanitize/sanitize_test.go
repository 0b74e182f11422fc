package sanitize_test

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

func TestTextRemovesTerminalSequencesAndInvisibleCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"two\n\twords":                             "two\n\twords",
		"\x1b[31mred\x1b[0m \x1b]0;title\x07x":     "red x",
		"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b(Bg\x1bcreset":                        "greset",
		"a\x00b\x07c\r\u0085d":                     "abcd",
		"safe\u202eexe.txt":                        "safeexe.txt",
		"\u2066x\u2069\u200f\u061c":                "x",
		"tag\U000E0041\U000E0042":                  "tag",
		"👩\u200d💻 می\u200cخواهم größe":             "👩\u200d💻 می\u200cخواهم größe",
		"one\u2028two":                             "one\ntwo",
		"half \xe2\x82":                            "half \uFFFD",
		"unterminated \x1b]0;title":                "unterminated ",
	} {
		if got := sanitize.Text(in, 100); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestTextIsTruncatedAtCharacterBoundary(t *testing.T) {
	for limit := 3; limit < 20; limit++ {
		got := sanitize.Text(strings.Repeat("ü", 20), limit)
		if len(got) > limit || !strings.HasSuffix(got, "…") || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
}

func TestLineJoinsLines(t *testing.T) {
	if got := sanitize.Line(" a\n b\tc ", 100); got != "a b c" {
		t.Errorf("%q", got)
	}
}
