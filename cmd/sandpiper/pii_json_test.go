package main

import (
	"fmt"
	"strings"
	"testing"
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
