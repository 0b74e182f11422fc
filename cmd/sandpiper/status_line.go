package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
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
	if !isTerminal(stderr) || os.Getenv("TERM") == "dumb" {
		return stdout, stderr, nil
	}
	line = &statusLine{to: stderr}
	if isTerminal(stdout) {
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
	if f, ok := fileOf(l.to); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			width = w
		}
	}
	fmt.Fprintf(l.to, "\r%s\x1b[K", styleFor(l.to).dim(strings.TrimSpace(fit(visibleName(text), min(width-1, 100)))))
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

// runningLine shows on the status line that code runs, and the progress that it reports.
type runningLine struct {
	a      *app
	began  time.Time
	state  atomic.Pointer[string] // nil means running
	latest atomic.Pointer[live.Progress]
	stop   func()
}

// startRunning shows from the first second on that code runs.
func startRunning(env *app) *runningLine {
	r := &runningLine{a: env, began: time.Now()}
	r.resume()
	return r
}

// pause clears the line until resume, for a prompt.
func (r *runningLine) pause() { r.stop() }

func (r *runningLine) resume() { r.stop = showWorking(r.a, r.began, r.text) }

// show shows progress at once. A terminal that cannot move the cursor gets one line for each.
func (r *runningLine) show(p live.Progress) {
	switch {
	case r.a.json:
	case r.a.line != nil:
		r.latest.Store(&p)
		r.a.line.draw(lineOf(r.text(), time.Since(r.began)))
	case isTerminal(r.a.stderr):
		fmt.Fprintln(r.a.stderr, visibleName(progressLine(p)))
	}
}

func (r *runningLine) text() string {
	if p := r.latest.Load(); p != nil {
		return progressLine(*p)
	}
	if state := r.state.Load(); state != nil {
		return *state
	}
	return "running"
}

// progressLine describes progress, with a bar if the total is known.
func progressLine(p live.Progress) string {
	const width = 20
	var amount string
	switch {
	case p.Total > 0:
		share := min(max(p.Done/p.Total, 0), 1)
		full := int(math.Round(width * share))
		amount = fmt.Sprintf("%s%s %.0f %%", strings.Repeat("█", full), strings.Repeat("░", width-full), 100*share)
	case p.Done > 0:
		amount = fmt.Sprintf("%g", p.Done)
	}
	return strings.TrimSpace(amount + " " + p.Message)
}

// lineOf appends the elapsed time to the name of an activity, from its first second on.
func lineOf(text string, since time.Duration) string {
	if since < time.Second {
		return text
	}
	return fmt.Sprintf("%s (%d s)", text, int(since.Seconds()))
}
