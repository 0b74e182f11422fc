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

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	at, ok := fileOf(f)
	return ok && term.IsTerminal(int(at.Fd()))
}

// fileOf returns the file that f writes to or reads, if it is one.
func fileOf(f any) (*os.File, bool) {
	if o, ok := f.(*output); ok {
		f = o.Writer
	}
	if b, ok := f.(*besideLine); ok {
		f = b.Writer
	}
	at, ok := f.(*os.File)
	return at, ok
}

// visible escapes the characters in s that control a terminal, except line breaks and
// tabs. Text from a sandbox is untrusted: it could overwrite earlier output, rename the
// window or fill the clipboard.
func visible(s string) string { return escape(s, "\n\t") }

// visibleName is visible for text of one line, such as a file name. It also escapes line
// breaks and tabs.
func visibleName(s string) string { return escape(s, "") }

func escape(s, allowed string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case !isControl(r) || strings.ContainsRune(allowed, r):
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

// isControl reports whether r controls a terminal: C0 and C1 control characters, line
// separators, and characters that change the direction of text.
func isControl(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// style colours text if on is true.
type style struct{ on bool }

// styleFor returns the style of output to w: colours on a terminal only.
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
func (s style) bold(text string) string   { return s.paint("1", text) }
func (s style) dim(text string) string    { return s.paint("2", text) }
