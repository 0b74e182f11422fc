package workflow

import (
	"fmt"
	"strings"
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
	ended  func() error // not nil after the context has ended
	size   int          // of all lines, with those of workflows; lines above maxCode are dropped
	lines  []line
	indent int
	file   string // that the lines come from
	step   *Step  // whose lines are written
	taken  map[string]bool
}

// stopped reports whether more code would be in vain.
func (o *output) stopped() bool { return o.size > maxCode || o.ended() != nil }

// name returns a variable that is not used yet, similar to want.
func (o *output) name(want string) string {
	name := want
	for i := 2; o.taken[name]; i++ {
		if name = want + "_"; i > 2 {
			name = fmt.Sprintf("%s_%d", want, i-1)
		}
	}
	o.taken[name] = true
	return name
}

// write writes lines of code. A format without args is the text itself.
func (o *output) write(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	for _, part := range strings.Split(text, "\n") {
		o.writeAt(part, Place{})
	}
}

func (o *output) writeAt(text string, at Place) {
	if o.stopped() {
		return
	}
	if at.File == "" {
		at = Place{File: o.file}
		if o.step != nil {
			at.Pos, at.Step = o.step.Pos, o.step
		}
	}
	if text == "" {
		if n := len(o.lines); n == 0 || o.lines[n-1].text == "" || strings.HasSuffix(o.lines[n-1].text, ":") {
			return
		}
	} else {
		text = strings.Repeat("    ", o.indent) + text
	}
	o.addLine(text, at)
}

// addLine writes a line as it is.
func (o *output) addLine(text string, at Place) {
	if o.size += len(text) + 1; o.size <= maxCode {
		o.lines = append(o.lines, line{text, at})
	}
}

// within writes what body writes, indented.
func (o *output) within(body func()) {
	o.indent++
	body()
	o.indent--
}
