package workflow

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Sizes of a drawing, in pixels.
const (
	charWidth  = 8 // of the font, at most
	boxHeight  = 36
	boxGap     = 28
	boxPadding = 14
)

// SVG returns a drawing of a workflow: levels of steps that run at the same time, from the top,
// and lines to the steps that they need.
func (w *Workflow) SVG() string {
	d := drawList(w.Steps)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="13">`+"\n", d.width+2*boxGap, d.height+2*boxGap)
	b.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, "<title>%s</title>\n", xmlText(w.Name))
	d.draw(&b, boxGap, boxGap)
	b.WriteString("</svg>\n")
	return b.String()
}

// drawing is a list of steps with their places.
type drawing struct {
	width, height int
	boxes         []*box
	lines         [][2]*box // from, to
	dashed        [][2]*box // after an error
}

// box is a step, with the lists of steps inside it side by side.
type box struct {
	label               string
	x, y, width, height int // relative to the drawing
	inside              []drawing
}

func drawList(steps []*Step) (d drawing) {
	c := newCompiler(&Workflow{}, Library{})
	boxes := map[string]*box{}
	for _, seg := range c.order(steps) {
		for _, level := range seg.levels {
			d.addLevel(level, boxes)
		}
	}
	d.height -= boxGap
	after := predecessors(steps)
	for _, s := range steps {
		to := boxes[s.Name]
		for _, name := range after[s] {
			if from := boxes[name]; from != nil && to != nil {
				d.lines = append(d.lines, [2]*box{from, to})
			}
		}
		if on := boxes[s.Goto.Name]; on != nil && to != nil {
			d.dashed = append(d.dashed, [2]*box{to, on})
		}
	}
	return d
}

// addLevel places steps side by side below the others.
func (d *drawing) addLevel(level []*Step, boxes map[string]*box) {
	x, tallest := 0, 0
	for _, s := range level {
		b := newBox(s)
		b.x, b.y = x, d.height
		x += b.width + boxGap
		tallest = max(tallest, b.height)
		boxes[s.Name] = b
		d.boxes = append(d.boxes, b)
	}
	d.width = max(d.width, x-boxGap)
	d.height += tallest + boxGap
}

func newBox(s *Step) *box {
	b := &box{label: s.Name + ": " + s.Type, height: boxHeight}
	if s.Target.Name != "" {
		b.label = s.Name + ": " + s.Target.Name
	}
	b.width = len([]rune(b.label))*charWidth + 2*boxPadding
	x := boxPadding
	for _, inner := range s.Blocks {
		list := drawList(inner.Steps)
		b.inside = append(b.inside, list)
		x += list.width + boxPadding
		b.height = max(b.height, boxHeight+list.height+boxPadding)
	}
	if len(s.Blocks) > 0 {
		b.width = max(b.width, x)
	}
	return b
}

func (d drawing) draw(out *strings.Builder, x, y int) {
	for _, l := range d.lines {
		drawLine(out, x, y, l, "")
	}
	for _, l := range d.dashed {
		drawLine(out, x, y, l, ` stroke-dasharray="4 3"`)
	}
	for _, b := range d.boxes {
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" rx="5" fill="white" stroke="black"/>`+"\n", x+b.x, y+b.y, b.width, b.height)
		fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`+"\n", x+b.x+boxPadding, y+b.y+23, xmlText(b.label))
		at := x + b.x + boxPadding
		for _, inner := range b.inside {
			inner.draw(out, at, y+b.y+boxHeight)
			at += inner.width + boxPadding
		}
	}
}

func drawLine(out *strings.Builder, x, y int, l [2]*box, style string) {
	from, to := l[0], l[1]
	fmt.Fprintf(out, `<path d="M%d %dL%d %d" fill="none" stroke="black"%s marker-end="url(#arrow)"/>`+"\n",
		x+from.x+from.width/2, y+from.y+from.height, x+to.x+to.width/2, y+to.y, style)
}

func xmlText(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}
