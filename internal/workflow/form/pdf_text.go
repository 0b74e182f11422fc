package form

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pdfcpu/pdfcpu/pkg/font"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// Sizes of text in points. A size that the form leaves open is at most biggest; a text that does
// not fit is set smaller, down to smallest.
const (
	biggest    = 12.0
	smallest   = 5.0
	lineHeight = 1.15 // of the size
	padding    = 2.0
)

// layout is a text set in lines.
type layout struct {
	lines []string
	size  float64
	codes map[rune]byte // of characters that the encoding of the font lacks
}

// layout sets a text into the look, in the largest size that fits; ok is false if none does.
func (l *look) layout(s string) (set *layout, ok bool) {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\t", " ")
	size := l.size
	if size == 0 {
		size = biggest
		if !l.multiline {
			size = min(biggest, (l.height-2*l.border)/lineHeight)
		}
	}
	for ; ; size -= 0.5 {
		size = max(size, min(smallest, size))
		set = &layout{lines: []string{s}, size: size, codes: codesOf(s)}
		if l.multiline {
			set.lines = wrap(s, size, l.room())
		}
		if set.fits(l) {
			return set, true
		}
		if size <= smallest {
			return set, false
		}
	}
}

// room is the width for text.
func (l *look) room() float64 { return l.width - 2*l.border - 2*padding }

func (t *layout) fits(l *look) bool {
	if l.comb > 0 {
		return len([]rune(t.lines[0])) <= l.comb
	}
	if l.multiline && float64(len(t.lines))*t.size*lineHeight > l.height-2*l.border {
		return false
	}
	return !slices.ContainsFunc(t.lines, func(line string) bool { return width(line, t.size) > l.room() })
}

// wrap breaks a text into lines at blanks, and within words that are too long.
func wrap(s string, size, room float64) (lines []string) {
	for paragraph := range strings.SplitSeq(s, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if next := strings.TrimPrefix(line+" "+word, " "); width(next, size) <= room {
				line = next
				continue
			}
			if line != "" {
				lines = append(lines, line)
			}
			for line = word; width(line, size) > room && len([]rune(line)) > 1; {
				n := len([]rune(line)) - 1
				for n > 1 && width(string([]rune(line)[:n]), size) > room {
					n--
				}
				lines, line = append(lines, string([]rune(line)[:n])), string([]rune(line)[n:])
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// width returns the width of a text in Helvetica.
func width(s string, size float64) float64 {
	total := 0
	for _, r := range s {
		if _, ok := winAnsi(r); !ok {
			r = []rune(norm.NFD.String(string(r)))[0] // an accent adds no width
		}
		w, err := font.CharWidth("Helvetica", r)
		if err != nil || w == 0 {
			w = 600
		}
		total += w
	}
	return float64(total) * size / 1000
}

func winAnsi(r rune) (byte, bool) {
	if r < 0x20 || r == 0x7f {
		return 0, false
	}
	return charmap.Windows1252.EncodeRune(r)
}

// accents are the names that glyphs have after their letter, by combining character.
var accents = map[rune]string{
	0x300: "grave", 0x301: "acute", 0x302: "circumflex", 0x303: "tilde", 0x304: "macron", 0x306: "breve", 0x307: "dotaccent", 0x308: "dieresis",
	0x30a: "ring", 0x30b: "hungarumlaut", 0x30c: "caron", 0x326: "commaaccent", 0x327: "cedilla", 0x328: "ogonek",
}

var glyphs = map[rune]string{'ł': "lslash", 'Ł': "Lslash", 'đ': "dcroat", 'Đ': "Dcroat", 'ı': "dotlessi", 'ħ': "hbar", 'Ħ': "Hbar", 'ŋ': "eng", 'Ŋ': "Eng", 'ŧ': "tbar", 'Ŧ': "Tbar"}

// glyph returns the name of the glyph of a Latin letter that WinAnsiEncoding lacks; "" if it has
// none in the standard fonts of readers.
func glyph(r rune) string {
	if name := glyphs[r]; name != "" {
		return name
	}
	parts := []rune(norm.NFD.String(string(r)))
	if len(parts) != 2 || parts[0] > 'z' || accents[parts[1]] == "" {
		return ""
	}
	name := accents[parts[1]]
	if name == "cedilla" && strings.ContainsRune("GgKkLlNnRr", parts[0]) {
		name = "commaaccent"
	}
	return string(parts[0]) + name
}

// unsupported returns the first character that cannot be shown.
func unsupported(s string) (rune, bool) {
	codes := map[rune]bool{}
	for _, r := range s {
		if _, ok := winAnsi(r); ok || r == '\n' || r == '\t' || r == '\r' {
			continue
		}
		if codes[r] = true; glyph(r) == "" || len(codes) > maxCodes {
			return r, true
		}
	}
	return 0, false
}

// maxCodes is the number of codes below those of the encoding.
const maxCodes = 31

// codesOf assigns codes to the characters that WinAnsiEncoding lacks.
func codesOf(s string) map[rune]byte {
	codes := map[rune]byte{}
	for _, r := range s {
		if _, ok := winAnsi(r); ok || glyph(r) == "" || codes[r] != 0 || len(codes) == maxCodes {
			continue
		}
		codes[r] = byte(len(codes) + 1)
	}
	return codes
}

// font returns Helvetica with the codes of the text. Every reader has the font.
func (t *layout) font() types.Dict {
	d := types.Dict{"Type": types.Name("Font"), "Subtype": types.Name("Type1"), "BaseFont": types.Name("Helvetica"), "Encoding": types.Name("WinAnsiEncoding")}
	if len(t.codes) == 0 {
		return d
	}
	differences := types.Array{types.Integer(1)}
	for _, r := range slices.SortedFunc(maps.Keys(t.codes), func(a, b rune) int { return int(t.codes[a]) - int(t.codes[b]) }) {
		differences = append(differences, types.Name(glyph(r)))
	}
	d["Encoding"] = types.Dict{"Type": types.Name("Encoding"), "BaseEncoding": types.Name("WinAnsiEncoding"), "Differences": differences}
	return d
}

// hex encodes a text in the encoding of the font, as a string of a content stream.
func (t *layout) hex(s string) string {
	var b strings.Builder
	b.WriteByte('<')
	for _, r := range s {
		c, ok := winAnsi(r)
		if !ok {
			c = t.codes[r]
		}
		fmt.Fprintf(&b, "%02X", c)
	}
	b.WriteByte('>')
	return b.String()
}

// box draws the background and the frame of a field.
func (l *look) box() string {
	var b strings.Builder
	if l.background != "" {
		fmt.Fprintf(&b, "q %s 0 0 %s %s re f Q\n", l.background, num(l.width), num(l.height))
	}
	if l.frame != "" && l.border > 0 {
		fmt.Fprintf(&b, "q %s %s w %s %s %s %s re S Q\n", l.frame, num(l.border), num(l.border/2), num(l.border/2), num(l.width-l.border), num(l.height-l.border))
	}
	return b.String()
}

// draw returns the content stream of a text in its field.
func (t *layout) draw(l *look) string {
	var b strings.Builder
	b.WriteString(l.box())
	fmt.Fprintf(&b, "/Tx BMC\nq %s %s %s %s re W n\nBT /Helv %s Tf %s\n", num(l.border), num(l.border), num(max(0, l.width-2*l.border)), num(max(0, l.height-2*l.border)), num(t.size), l.color)
	const descent = 0.22 // of the size
	y := (l.height - t.size*0.72) / 2
	if l.multiline {
		y = l.height - l.border - t.size*(lineHeight-descent)
	}
	if l.comb > 0 {
		t.drawComb(&b, l, y)
	} else {
		for i, line := range t.lines {
			fmt.Fprintf(&b, "1 0 0 1 %s %s Tm %s Tj\n", num(l.start(width(line, t.size))), num(y-float64(i)*t.size*lineHeight), t.hex(line))
		}
	}
	b.WriteString("ET Q\nEMC\n")
	return b.String()
}

// start returns where a line of the given width begins.
func (l *look) start(wide float64) float64 {
	switch l.align {
	case 1:
		return (l.width - wide) / 2
	case 2:
		return l.width - l.border - padding - wide
	}
	return l.border + padding
}

// drawComb draws one character in each cell.
func (t *layout) drawComb(b *strings.Builder, l *look, y float64) {
	cell := l.width / float64(l.comb)
	for i, r := range []rune(t.lines[0]) {
		x := float64(i)*cell + (cell-width(string(r), t.size))/2
		fmt.Fprintf(b, "1 0 0 1 %s %s Tm %s Tj\n", num(x), num(y), t.hex(string(r)))
	}
}
