package form

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
)

func writeContext(ctx *model.Context, out io.Writer) error {
	ctx.Write.Writer = bufio.NewWriter(out)
	if err := pdfcpu.WriteContext(ctx); err != nil {
		return err
	}
	return ctx.Write.Flush()
}

// fill sets the value of a field and its appearance.
func (p *pdfForm) fill(f *Field, value any) error {
	t := f.target.(*pdfField)
	if t.kind == "Btn" {
		return p.press(f, t, value)
	}
	lines := []string{}
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			lines = append(lines, fmt.Sprint(v))
		}
	default:
		lines = append(lines, shown(f, value))
	}
	p.setValue(f, t, lines)
	shownLines := make([]string, len(lines))
	for i, line := range lines {
		shownLines[i] = optionText(f, line)
	}
	for _, w := range t.widgets {
		if err := p.draw(t, f, w.dict, strings.Join(shownLines, "\n")); err != nil {
			return wrong(broken, "field %q of the PDF cannot be drawn: %.200s", f.Name, err)
		}
	}
	return nil
}

func (p *pdfForm) setValue(f *Field, t *pdfField, values []string) {
	for _, d := range append([]types.Dict{t.dict}, dicts(t.widgets)...) {
		d.Delete("RV") // the value with fonts, which would contradict it
		d.Delete("I")
	}
	if f.Type != choices {
		t.dict["V"] = pdfText(values[0])
		return
	}
	all, indexes := types.Array{}, types.Array{}
	for i, o := range f.Options {
		if slices.Contains(values, o.Value) {
			all, indexes = append(all, pdfText(o.Value)), append(indexes, types.Integer(i))
		}
	}
	t.dict["V"], t.dict["I"] = all, indexes
}

func dicts(widgets []*widget) (all []types.Dict) {
	for _, w := range widgets {
		all = append(all, w.dict)
	}
	return all
}

// press selects the buttons of a checkbox or a group, and releases the others.
func (p *pdfForm) press(f *Field, t *pdfField, value any) error {
	state := "Off"
	switch value := value.(type) {
	case bool:
		if value {
			state = firstOn(t)
		}
	case string:
		state = value
	}
	t.dict["V"] = types.Name(types.EncodeName(state))
	for _, w := range t.widgets {
		now := "Off"
		if on := w.on; state != "Off" && (on == state || on == "") {
			now = state
		}
		if w.on == "" {
			if err := p.drawButton(w.dict, state); err != nil {
				return wrong(broken, "field %q of the PDF cannot be drawn: %.200s", f.Name, err)
			}
		}
		w.dict["AS"] = types.Name(types.EncodeName(now))
	}
	return nil
}

func firstOn(t *pdfField) string {
	for _, w := range t.widgets {
		if w.on != "" {
			return w.on
		}
	}
	return "Yes"
}

// pdfText encodes a text as UTF-16, which every reader understands.
func pdfText(s string) types.Object {
	b := []byte{0xfe, 0xff}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u>>8), byte(u))
	}
	return types.NewHexLiteral(b)
}

// look is how a field shows text, from its widget and its default appearance.
type look struct {
	width, height, border float64
	rotated               int
	size                  float64 // 0 means that it is chosen
	color                 string
	background, frame     string // operators; "" means none
	multiline             bool
	comb, align           int // comb: number of cells
}

// draw sets the appearance of a widget with a text.
func (p *pdfForm) draw(t *pdfField, f *Field, w types.Dict, s string) error {
	l, err := p.look(t, f, w)
	if err != nil {
		return err
	}
	set, ok := l.layout(s)
	if !ok { // Check has reported it; a field that cannot be seen is not drawn
		set, _ = l.layout("")
	}
	return p.setAppearance(w, l, set, set.font())
}

// look reads the geometry and style of a widget.
func (p *pdfForm) look(t *pdfField, f *Field, w types.Dict) (*look, error) {
	rect, err := p.numbers(w["Rect"])
	if err != nil || len(rect) != 4 {
		return nil, fmt.Errorf("no rectangle")
	}
	l := &look{width: abs(rect[2] - rect[0]), height: abs(rect[3] - rect[1]), border: 1, color: "0 g", multiline: f.Multiline || f.Type == choices, align: p.int(w["Q"], t.align)}
	if l.width > 1e5 || l.height > 1e5 {
		return nil, fmt.Errorf("a rectangle of %g by %g", l.width, l.height)
	}
	if t.kind == "Tx" && t.flags&flagComb != 0 && f.MaxLength > 0 && !l.multiline {
		l.comb = f.MaxLength
	}
	da := t.da
	if own := p.text(w["DA"]); own != "" {
		da = own
	}
	l.size, l.color = parseDA(da)
	if bs, _ := p.ctx.DereferenceDict(w["BS"]); bs != nil {
		if v, err := p.ctx.DereferenceNumber(bs["W"]); err == nil && bs["W"] != nil {
			l.border = min(max(v, 0), 10)
		}
	}
	mk, _ := p.ctx.DereferenceDict(w["MK"])
	if mk != nil {
		l.background, l.frame = p.color(mk["BG"], false), p.color(mk["BC"], true)
		l.rotated = ((p.int(mk["R"], 0) % 360) + 360) % 360
	}
	if l.rotated == 90 || l.rotated == 270 {
		l.width, l.height = l.height, l.width
	}
	return l, nil
}

func (p *pdfForm) numbers(o types.Object) ([]float64, error) {
	a, err := p.ctx.DereferenceArray(o)
	if err != nil {
		return nil, err
	}
	var all []float64
	for _, x := range a {
		v, err := p.ctx.DereferenceNumber(x)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// color returns the operator for a colour of a widget.
func (p *pdfForm) color(o types.Object, stroke bool) string {
	parts, err := p.numbers(o)
	ops := map[int]string{1: "g", 3: "rg", 4: "k"}
	op := ops[len(parts)]
	if err != nil || op == "" {
		return ""
	}
	if stroke {
		op = strings.ToUpper(op)
	}
	var b strings.Builder
	for _, v := range parts {
		b.WriteString(num(v) + " ")
	}
	return b.String() + op
}

// parseDA returns the size and the colour of a default appearance, such as "/Helv 10 Tf 0 g".
func parseDA(da string) (size float64, color string) {
	color = "0 g"
	words := strings.Fields(da)
	for i, word := range words {
		n, ok := map[string]int{"g": 1, "rg": 3, "k": 4}[word]
		switch {
		case word == "Tf" && i >= 1:
			if v, err := strconv.ParseFloat(words[i-1], 64); err == nil && v >= 0 && v < 1000 {
				size = v
			}
		case ok && i >= n:
			if parts, ok := numbersOf(words[i-n : i]); ok {
				color = parts + word
			}
		}
	}
	return size, color
}

func numbersOf(words []string) (string, bool) {
	var b strings.Builder
	for _, w := range words {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return "", false
		}
		b.WriteString(num(v) + " ")
	}
	return b.String(), true
}

func num(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

func abs(v float64) float64 { return max(v, -v) }

// setAppearance makes the drawing the normal appearance of a widget.
func (p *pdfForm) setAppearance(w types.Dict, l *look, set *layout, font types.Dict) error {
	ref, err := p.stream(l, set.draw(l), types.Dict{"Helv": font})
	if err != nil {
		return err
	}
	w["AP"] = types.Dict{"N": *ref}
	w.Delete("AS")
	return nil
}

// stream adds a form XObject of the size of a widget.
func (p *pdfForm) stream(l *look, content string, fonts types.Dict) (*types.IndirectRef, error) {
	sd, err := p.ctx.NewStreamDictForBuf([]byte(content))
	if err != nil {
		return nil, err
	}
	sd.InsertName("Type", "XObject")
	sd.InsertName("Subtype", "Form")
	sd.Insert("BBox", types.Array{types.Integer(0), types.Integer(0), types.Float(l.width), types.Float(l.height)})
	sd.Insert("Resources", types.Dict{"Font": fonts})
	if m, ok := map[int][4]int{90: {0, 1, -1, 0}, 180: {-1, 0, 0, -1}, 270: {0, -1, 1, 0}}[l.rotated]; ok {
		sd.Insert("Matrix", types.Array{types.Integer(m[0]), types.Integer(m[1]), types.Integer(m[2]), types.Integer(m[3]), types.Integer(0), types.Integer(0)})
	}
	if err := sd.Encode(); err != nil {
		return nil, err
	}
	return p.ctx.IndRefForNewObject(*sd)
}

// drawButton gives a checkbox without appearances of its own two of them.
func (p *pdfForm) drawButton(w types.Dict, state string) error {
	l, err := p.look(&pdfField{}, &Field{}, w)
	if err != nil {
		return err
	}
	if state == "Off" {
		state = "Yes"
	}
	size := min(l.width, l.height) * 0.8
	box := l.box()
	mark := fmt.Sprintf("q BT /ZaDb %s Tf %s %s %s Td (4) Tj ET Q", num(size), l.color, num((l.width-size*0.85)/2), num((l.height-size*0.7)/2))
	font := types.Dict{"Type": types.Name("Font"), "Subtype": types.Name("Type1"), "BaseFont": types.Name("ZapfDingbats")}
	on, err := p.stream(l, box+mark, types.Dict{"ZaDb": font})
	if err != nil {
		return err
	}
	off, err := p.stream(l, box, types.Dict{})
	if err != nil {
		return err
	}
	w["AP"] = types.Dict{"N": types.Dict{types.EncodeName(state): *on, "Off": *off}}
	return nil
}

// fit reports a value that its field cannot show.
func (p *pdfForm) fit(f *Field, value any) *Problem {
	t := f.target.(*pdfField)
	if t.kind == "Btn" {
		return nil
	}
	s := optionText(f, shown(f, value))
	if r, ok := unsupported(s); ok {
		return &Problem{f.Name, characters, fmt.Sprintf("%s: the character %q (U+%04X) is not in the fonts of a form; write it in Latin letters", f.title(), r, r)}
	}
	for _, w := range t.widgets {
		l, err := p.look(t, f, w.dict)
		if err != nil || l.width == 0 || l.height == 0 { // hidden: another place shows it, or none
			continue
		}
		if _, ok := l.layout(s); !ok {
			return &Problem{f.Name, tooLong, fmt.Sprintf("%s: the value has %d characters and does not fit into the field; shorten it", f.title(), len([]rune(s)))}
		}
	}
	return nil
}
