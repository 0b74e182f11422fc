package workflow

import (
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// maxCode limits the length of compiled code, as executions do.
const maxCode = 1 << 20

// line is a line of code.
type line struct {
	text  string
	place Place
}

// output has the lines of the code that is written.
type output struct {
	ended   func() error // not nil after the context has ended
	size    int          // of all lines, with those of workflows; lines above maxCode are dropped
	written []line
	indent  int
	file    string // that the lines come from
	step    *Step  // whose lines are written
	taken   map[string]bool
}

// stopped reports whether more code would be in vain.
func (o *output) stopped() bool { return o.size > maxCode || o.ended() != nil }

// name returns a name that is not used yet, similar to want.
func (o *output) name(want string) string {
	for o.taken[want] {
		want += "_"
	}
	o.taken[want] = true
	return want
}

// reserve keeps the names of the variables of loops, which a person chose.
func (o *output) reserve(w *Workflow) {
	all(w.Steps, func(s *Step) { o.taken[s.As] = true })
}

// write writes lines of code. A format without args is the text itself.
func (o *output) write(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	o.lines(text, func(int) Place {
		at := Place{File: o.file}
		if o.step != nil {
			at.Pos, at.Step = o.step.Pos, o.step
		}
		return at
	})
}

// lines writes lines of code with their places. Those that begin in a string are not indented.
func (o *output) lines(text string, place func(i int) Place) {
	if o.stopped() {
		return
	}
	inside := pysource.InStrings(text)
	for i, l := range strings.Split(text, "\n") {
		if n := len(o.written); l == "" && !inside[i] && (n == 0 || o.written[n-1].text == "" || strings.HasSuffix(o.written[n-1].text,
			":")) {
			continue
		}
		if l != "" && !inside[i] {
			l = strings.Repeat("    ", o.indent) + l
		}
		if o.size += len(l) + 1; !o.stopped() {
			o.written = append(o.written, line{l, place(i)})
		}
	}
}

// within writes what body writes, indented.
func (o *output) within(body func()) {
	o.indent++
	body()
	o.indent--
}
