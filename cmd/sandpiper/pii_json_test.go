package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

// The decoded text and the lengths do not depend on the pieces in which a text arrives.
func TestEscapedLettersInPieces(t *testing.T) {
	source := `{"a": "\u00eb\nface\\u00eb \" \u0022\u005c\n\ud83d\ude00 \ud83d x\u00`
	want := `{"a": "ë\nface\\u00eb \" \u0022\u005c\n😀 \ud83d x\u00`
	for size := 1; size <= len(source); size++ {
		var e escapedLetters
		var got strings.Builder
		for at := 0; at < len(source); at += size {
			got.WriteString(e.decode(source[at:min(len(source), at+size)], false))
		}
		got.WriteString(e.decode("", true))
		if got.String() != want {
			t.Errorf("in pieces of %d bytes: %s, want %s", size, got.String(), want)
		}
		first, all := e.longer(0, strings.Index(want, "ë")+1), e.longer(0, len(want))
		if lengths := fmt.Sprint(first, all); lengths != fmt.Sprint(4, len(source)-len(want)) {
			t.Errorf("in pieces of %d bytes: longer by %s", size, lengths)
		}
	}
}

func TestScanReadsUnicode(t *testing.T) {
	s, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"} {
		u, _ := encoded.UnicodeNamed(name)
		b, err := u.Encode("\ufeffone\nmail ada@example.com\n")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		p := findingPrinter{out: &out, file: "x", line: 1}
		if err := p.scan(t.Context(), decodedInput(bytes.NewReader(b)), s); err != nil || !strings.HasPrefix(out.String(),
			"x:2:5-20 EMAIL") {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}
