package cli

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
)

// runningLine shows on the status line that code runs, and the progress that it reports.
type runningLine struct {
	a      *Env
	began  time.Time
	State  atomic.Pointer[string] // nil means running
	latest atomic.Pointer[live.Progress]
	stop   func()
}

// StartRunning shows from the first second on that code runs.
func StartRunning(env *Env) *runningLine {
	r := &runningLine{a: env, began: time.Now()}
	r.Resume()
	return r
}

// Pause clears the line until resume, for a prompt.
func (r *runningLine) Pause() { r.stop() }

func (r *runningLine) Resume() { r.stop = showWorking(r.a, r.began, r.text) }

// Show shows progress at once. A terminal that cannot move the cursor gets one line for each.
func (r *runningLine) Show(p live.Progress) {
	switch {
	case r.a.JSON:
	case r.a.line != nil:
		r.latest.Store(&p)
		r.a.line.draw(lineOf(r.text(), time.Since(r.began)))
	case IsTerminal(r.a.Stderr):
		fmt.Fprintln(r.a.Stderr, VisibleName(ProgressLine(p)))
	}
}

func (r *runningLine) text() string {
	if p := r.latest.Load(); p != nil {
		return ProgressLine(*p)
	}
	if state := r.State.Load(); state != nil {
		return *state
	}
	return "running"
}

// ProgressLine describes progress, with a bar if the total is known.
func ProgressLine(p live.Progress) string {
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
