package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(f any) bool {
	at, ok := FileOf(f)
	return ok && term.IsTerminal(int(at.Fd()))
}

// FileOf returns the file that f writes to or reads, if it is one.
func FileOf(f any) (*os.File, bool) {
	if o, ok := f.(*output); ok {
		f = o.Writer
	}
	if b, ok := f.(*besideLine); ok {
		f = b.Writer
	}
	at, ok := f.(*os.File)
	return at, ok
}

// Visible escapes the characters in s that control a terminal, except line breaks and
// tabs. Text from a sandbox is untrusted: it could overwrite earlier output, rename the
// window or fill the clipboard.
func Visible(s string) string { return escape(s, "\n\t") }

// VisibleName is visible for text of one line, such as a file name. It also escapes line
// breaks and tabs.
func VisibleName(s string) string { return escape(s, "") }

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

// Style colours text if on is true.
type Style struct{ on bool }

// StyleFor returns the style of output to w: colours on a terminal only.
func StyleFor(w io.Writer) Style {
	return Style{IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s Style) paint(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) Red(text string) string    { return s.paint("31", text) }
func (s Style) Green(text string) string  { return s.paint("32", text) }
func (s Style) Yellow(text string) string { return s.paint("33", text) }
func (s Style) Bold(text string) string   { return s.paint("1", text) }
func (s Style) Dim(text string) string    { return s.paint("2", text) }

// Fit pads or cuts text to a width.
func Fit(text string, width int) string {
	n := utf8.RuneCountInString(text)
	if n > width {
		return string([]rune(text)[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-n)
}

// output records the first error of writing to stdout. A command that printed nothing must not
// look successful.
type output struct {
	io.Writer
	err atomic.Pointer[error]
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// lost returns the error of the output, without the name of the file; nil if all was written.
func (o *output) lost() error {
	err := o.err.Load()
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](*err); ok {
		return e.Err
	}
	return *err
}
