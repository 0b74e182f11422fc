// Package formtest makes documents for tests: PDF files with forms, among them one in the style
// of an authority, and broken and hostile ones.
//
// It writes the files itself, so that a test decides about each byte, and that they are not the
// work of the library that reads them.
package formtest

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
)

// Builder builds a PDF.
type Builder struct {
	objects []string // number 1 is the first
	fields  []int
	pages   []*page
	// AcroForm, Catalog and Trailer are added to these dictionaries.
	AcroForm, Catalog, Trailer string
}

type page struct {
	content strings.Builder
	annots  []int
}

// NewBuilder returns a PDF with one empty page of 595 by 842 points.
func NewBuilder() *Builder {
	b := &Builder{objects: make([]string, 4)} // catalog, pages, form, font
	b.Page()
	return b
}

// Page begins another page.
func (b *Builder) Page() { b.pages = append(b.pages, &page{}) }

func (b *Builder) page() *page { return b.pages[len(b.pages)-1] }

// Add adds an object and returns its number.
func (b *Builder) Add(object string) int {
	b.objects = append(b.objects, object)
	return len(b.objects)
}

// Stream adds a stream, compressed.
func (b *Builder) Stream(dict string, content []byte) int {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Add(fmt.Sprintf("<< %s /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", dict, z.Len(), z.String()))
}

// Text writes a line on the page.
func (b *Builder) Text(x, y, size float64, s string) {
	fmt.Fprintf(&b.page().content, "BT /Helv %g Tf %g %g Td (%s) Tj ET\n", size, x, y, escape(s))
}

// Rule draws a line.
func (b *Builder) Rule(x1, y1, x2, y2 float64) {
	fmt.Fprintf(&b.page().content, "0.6 w %g %g m %g %g l S\n", x1, y1, x2, y2)
}

// Field adds a field of one widget; dict has its entries without the rectangle.
func (b *Builder) Field(x, y, w, h float64, dict string) int {
	n := b.Add(fmt.Sprintf("<< /Type /Annot /Subtype /Widget /Rect [%g %g %g %g] /F 4 /MK << /BC [0.4 0.4 0.5] /BG [0.95 0.97 1] >> %s >>",
		x, y, x+w, y+h, dict))
	b.fields = append(b.fields, n)
	b.page().annots = append(b.page().annots, n)
	return n
}

// TextField adds a field for text.
func (b *Builder) TextField(x, y, w, h float64, name, label string, flags int, more string) int {
	return b.Field(x, y, w, h, fmt.Sprintf("/FT /Tx /T (%s) /TU (%s) /Ff %d /DA (/Helv 0 Tf 0 0 0.5 rg) %s", escape(name), escape(label),
		flags, more))
}

// appearances adds the two states of a button of size 12.
func (b *Builder) appearances() (on, off int) {
	const frame = "0.95 0.97 1 rg 0 0 12 12 re f 0.4 0.4 0.5 RG 0.5 0.5 11 11 re S "
	form := "/Type /XObject /Subtype /Form /BBox [0 0 12 12]"
	return b.Stream(form, []byte(frame+"0 0 0.5 RG 1.5 w 3 3 m 9 9 l S 3 9 m 9 3 l S")), b.Stream(form, []byte(frame))
}

// CheckBox adds a checkbox whose state is named on.
func (b *Builder) CheckBox(x, y float64, name, label, on string, flags int) {
	yes, off := b.appearances()
	b.Field(x, y, 12, 12, fmt.Sprintf("/FT /Btn /T (%s) /TU (%s) /Ff %d /V /Off /AS /Off /AP << /N << /%s %d 0 R /Off %d 0 R >> >>",
		escape(name), escape(label), flags, on, yes, off))
}

// Radio adds a group of buttons side by side, with the options as their states and labels.
func (b *Builder) Radio(x, y, step float64, name, label string, flags int, options ...string) {
	group := b.Add("")
	var kids []string
	for i, o := range options {
		yes, off := b.appearances()
		at := x + float64(i)*step
		n := b.Add(fmt.Sprintf("<< /Type /Annot /Subtype /Widget /Rect [%g %g %g %g] /F 4 /Parent %d 0 R /AS /Off /AP << /N << /%s %d 0 "+
			"R /Off %d 0 R >> >> >>", at, y, at+12, y+12, group, o, yes, off))
		b.page().annots = append(b.page().annots, n)
		b.Text(at+16, y+2, 9, o)
		kids = append(kids, fmt.Sprintf("%d 0 R", n))
	}
	b.objects[group-1] = fmt.Sprintf("<< /FT /Btn /T (%s) /TU (%s) /Ff %d /V /Off /Kids [%s] >>", escape(name), escape(label),
		flags|1<<15|1<<14, strings.Join(kids, " "))
	b.fields = append(b.fields, group)
}

// Bytes returns the file.
func (b *Builder) Bytes() []byte {
	var kids []string
	for _, p := range b.pages {
		content := b.Stream("", []byte(p.content.String()))
		n := b.Add(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /Helv 4 0 R >> >> /Contents "+
			"%d 0 R /Annots [%s] >>", content, references(p.annots)))
		kids = append(kids, fmt.Sprintf("%d 0 R", n))
	}
	b.objects[0] = "<< /Type /Catalog /Pages 2 0 R /AcroForm 3 0 R " + b.Catalog + " >>"
	b.objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(kids))
	b.objects[2] = fmt.Sprintf("<< /Fields [%s] /DA (/Helv 0 Tf 0 g) /DR << /Font << /Helv 4 0 R >> >> %s >>", references(b.fields),
		b.AcroForm)
	b.objects[3] = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	offsets := make([]int, len(b.objects))
	for i, o := range b.objects {
		offsets[i] = out.Len()
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(b.objects)+1)
	for _, at := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(b.objects)+1, b.Trailer, start)
	return out.Bytes()
}

func references(numbers []int) string {
	var all []string
	for _, n := range numbers {
		all = append(all, fmt.Sprintf("%d 0 R", n))
	}
	return strings.Join(all, " ")
}

func escape(s string) string {
	return strings.NewReplacer("\\", "\\\\", "(", "\\(", ")", "\\)").Replace(s)
}

// Replace replaces the object with that number.
func (b *Builder) Replace(n int, object string) { b.objects[n-1] = object }

// AddField adds an object to the list of fields.
func (b *Builder) AddField(n int) { b.fields = append(b.fields, n) }

// Annotate shows an object on the page.
func (b *Builder) Annotate(n int) { b.page().annots = append(b.page().annots, n) }
