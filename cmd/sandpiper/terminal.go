package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// isTerminal reports whether a person reads or types at the other end of f.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// visible returns s with everything that a terminal would obey written out.
// Text from a sandbox may say anything: move the cursor over what was printed
// before it, rename the window, fill the clipboard. Line breaks and tabs pass.
func visible(s string) string { return escape(s, "\n\t") }

// visibleName is visible for file names and the like, of one line each.
func visibleName(s string) string { return escape(s, "") }

func escape(s, allowed string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case !obeyed(r) || strings.ContainsRune(allowed, r):
			b.WriteString(rest[:size])
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	return b.String()
}

// obeyed reports whether a terminal does something at r other than show it:
// control characters of both sets, line separators, and those that turn the
// direction of text.
func obeyed(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// style paints text for a person, and nothing where no person looks.
type style struct{ on bool }

// styleFor returns a style for what is written to w.
func styleFor(w io.Writer) style {
	return style{isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s style) paint(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) red(text string) string    { return s.paint("31", text) }
func (s style) green(text string) string  { return s.paint("32", text) }
func (s style) yellow(text string) string { return s.paint("33", text) }
func (s style) dim(text string) string    { return s.paint("2", text) }
