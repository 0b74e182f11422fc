package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// statusLine is the last line of a terminal, which shows what is being done. Writers that know it
// clear it before they write, so that it never mixes with other output. A nil statusLine shows
// nothing.
type statusLine struct {
	mu    sync.Mutex
	to    io.Writer
	drawn bool
}

// shareTerminal returns the writers of a command line that clear its status line, and the line; nil
// if stderr is no terminal or cannot move the cursor.
func shareTerminal(stdout, stderr io.Writer) (_, _ io.Writer, line *statusLine) {
	if !IsTerminal(stderr) || os.Getenv("TERM") == "dumb" {
		return stdout, stderr, nil
	}
	line = &statusLine{to: stderr}
	if IsTerminal(stdout) {
		stdout = &besideLine{stdout, line}
	}
	return stdout, &besideLine{stderr, line}, line
}

// draw shows text, without style, in place of the line.
func (l *statusLine) draw(text string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	width := 80
	if f, ok := FileOf(l.to); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			width = w
		}
	}
	fmt.Fprintf(l.to, "\r%s\x1b[K", StyleFor(l.to).Dim(strings.TrimSpace(Fit(VisibleName(text), min(width-1, 100)))))
	l.drawn = true
}

func (l *statusLine) clear() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
}

func (l *statusLine) clearLocked() {
	if l.drawn {
		fmt.Fprint(l.to, "\r\x1b[K")
		l.drawn = false
	}
}

// besideLine writes to a terminal after clearing its status line.
type besideLine struct {
	io.Writer
	line *statusLine
}

func (b *besideLine) Write(p []byte) (int, error) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	b.line.clearLocked()
	return b.Writer.Write(p)
}
