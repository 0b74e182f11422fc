package form

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
)

// Limits of a PDF, besides those of the process.
const (
	maxFieldDepth = 32
	maxNodes      = 50_000
	maxPages      = 10_000
)

// Flags of fields (PDF 32000-1, tables 221, 226, 228, 230).
const (
	flagReadOnly    = 1 << 0
	flagRequired    = 1 << 1
	flagMultiline   = 1 << 12
	flagRadio       = 1 << 15
	flagPushbutton  = 1 << 16
	flagCombo       = 1 << 17
	flagEdit        = 1 << 18
	flagFileSelect  = 1 << 20
	flagMultiSelect = 1 << 21
	flagComb        = 1 << 24
)

// pdfForm is an open PDF.
type pdfForm struct {
	ctx     *model.Context
	acro    types.Dict
	form    *Form
	pages   map[int]int // object number of a widget -> page
	nodes   int
	names   map[string]int
	scripts map[string]bool
}

// pdfField is the target of a field of a PDF.
type pdfField struct {
	dict    types.Dict
	kind    string // Tx, Btn or Ch
	flags   int
	da      string // default appearance
	align   int
	widgets []*widget
}

// widget is one place where a field is shown.
type widget struct {
	dict types.Dict
	on   string // of a button: the state that selects it
}

func openPDF(raw []byte) (*document, error) {
	ctx, err := readPDF(raw)
	if err != nil {
		return nil, err
	}
	p := &pdfForm{ctx: ctx, form: &Form{Kind: PDF}, pages: map[int]int{}, names: map[string]int{}, scripts: map[string]bool{}}
	if err := p.extract(); err != nil {
		return nil, err
	}
	return &document{form: p.form, fit: p.fit, write: p.write}, nil
}

func readPDF(raw []byte) (*model.Context, error) {
	model.ConfigPath = "disable"
	conf := model.NewDefaultConfiguration()
	conf.Offline = true
	conf.Limits.MaxDecodeBytes, conf.Limits.MaxStreamBytes = 128<<20, 64<<20
	conf.Limits.MaxObjectCount, conf.Limits.MaxXRefEntries, conf.Limits.MaxObjectStreamCount = 500_000, 500_000, 100_000
	ctx, err := pdfcpu.Read(bytes.NewReader(raw), conf)
	switch {
	case errors.Is(err, pdfcpu.ErrWrongPassword), errors.Is(err, pdfcpu.ErrEncrypted), err == nil && ctx.Encrypt != nil:
		return nil, wrong(encrypted, "the PDF is encrypted; save a copy without a password and restrictions")
	case err != nil:
		if tail := raw[max(0, len(raw)-4096):]; bytes.Contains(tail, []byte("/Encrypt")) {
			return nil, wrong(encrypted, "the PDF is encrypted; save a copy without a password and restrictions")
		}
		return nil, wrong(broken, "the PDF cannot be read: %.200s", err)
	}
	return ctx, nil
}

func (p *pdfForm) extract() error {
	root, err := p.ctx.Catalog()
	if err != nil || root == nil {
		return wrong(broken, "the PDF has no catalog")
	}
	p.acro, err = p.ctx.DereferenceDict(root["AcroForm"])
	if err != nil || p.acro == nil {
		return wrong(noFields, "the PDF has no form: it contains text only, or a picture of a form")
	}
	fields, err := p.ctx.DereferenceArray(p.acro["Fields"])
	if err != nil {
		return wrong(broken, "the fields of the PDF cannot be read: %.200s", err)
	}
	if p.acro["XFA"] != nil {
		return wrong(xfa, "the PDF has an XFA form, which only Adobe's programs can fill in; ask the publisher for a version with an ordinary form (AcroForm)")
	}
	if err := p.walkPages(root); err != nil {
		return err
	}
	for _, o := range fields {
		if err := p.walkField(o, inherited{}, 0); err != nil {
			return err
		}
	}
	p.findDocumentScripts(root)
	p.form.Scripts = len(p.scripts)
	if p.form.Scripts > 0 {
		names := slices.Sorted(mapsKeys(p.scripts))
		p.form.Warnings = append(p.form.Warnings, fmt.Sprintf("the PDF has scripts (%s), which are not run: values that they would compute or check are not", someNames(names)))
	}
	p.form.Title = p.title()
	return nil
}

func (p *pdfForm) title() string {
	if p.ctx.Info == nil {
		return ""
	}
	info, err := p.ctx.DereferenceDict(*p.ctx.Info)
	if err != nil || info == nil {
		return ""
	}
	return p.text(info["Title"])
}

// walkPages finds the page of each widget, by its object number.
func (p *pdfForm) walkPages(root types.Dict) error {
	seen := map[int]bool{}
	var walk func(o types.Object, depth int) error
	walk = func(o types.Object, depth int) error {
		if ref, ok := o.(types.IndirectRef); ok {
			if seen[ref.ObjectNumber.Value()] {
				return nil
			}
			seen[ref.ObjectNumber.Value()] = true
		}
		d, err := p.ctx.DereferenceDict(o)
		if err != nil || d == nil || depth > maxFieldDepth {
			return wrong(broken, "the pages of the PDF cannot be read")
		}
		if kids, err := p.ctx.DereferenceArray(d["Kids"]); err == nil && kids != nil {
			for _, kid := range kids {
				if err := walk(kid, depth+1); err != nil {
					return err
				}
			}
			return nil
		}
		if p.form.Pages++; p.form.Pages > maxPages {
			return wrong(tooLarge, "the PDF has more than %d pages", maxPages)
		}
		annots, _ := p.ctx.DereferenceArray(d["Annots"])
		for _, a := range annots {
			if ref, ok := a.(types.IndirectRef); ok {
				p.pages[ref.ObjectNumber.Value()] = p.form.Pages
			}
		}
		if d["AA"] != nil && p.hasScript(d["AA"], 0) {
			p.scripts[fmt.Sprintf("page %d", p.form.Pages)] = true
		}
		return nil
	}
	return walk(root["Pages"], 0)
}

// inherited are the entries that fields take from their parents.
type inherited struct {
	name, kind, da, label string
	flags, align, length  int
	value, options        types.Object
}

// walkField adds the terminal fields below o.
func (p *pdfForm) walkField(o types.Object, from inherited, depth int) error {
	if p.nodes++; p.nodes > maxNodes || depth > maxFieldDepth {
		return wrong(broken, "the fields of the PDF are nested or repeated without end")
	}
	d, err := p.ctx.DereferenceDict(o)
	if err != nil || d == nil {
		return nil // a field that was deleted
	}
	at := p.inherit(d, from)
	kids, _ := p.ctx.DereferenceArray(d["Kids"])
	if p.haveFields(kids) {
		for _, kid := range kids {
			if err := p.walkField(kid, at, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return p.add(o, d, kids, at)
}

func (p *pdfForm) inherit(d types.Dict, from inherited) inherited {
	at := from
	if part := p.text(d["T"]); part != "" {
		at.name = strings.TrimPrefix(from.name+"."+part, ".")
	}
	if n, err := p.ctx.Dereference(d["FT"]); err == nil {
		if name, ok := n.(types.Name); ok {
			at.kind = string(name)
		}
	}
	at.flags, at.align, at.length = p.int(d["Ff"], at.flags), p.int(d["Q"], at.align), p.int(d["MaxLen"], at.length)
	if s := p.text(d["DA"]); s != "" {
		at.da = s
	}
	if s := p.text(d["TU"]); s != "" {
		at.label = s
	}
	if d["V"] != nil {
		at.value = d["V"]
	}
	if d["Opt"] != nil {
		at.options = d["Opt"]
	}
	return at
}

// haveFields reports whether kids are fields, rather than widgets of their parent.
func (p *pdfForm) haveFields(kids types.Array) bool {
	return slices.ContainsFunc(kids, func(o types.Object) bool {
		d, err := p.ctx.DereferenceDict(o)
		return err == nil && d != nil && d["T"] != nil
	})
}

// add adds one terminal field.
func (p *pdfForm) add(o types.Object, d types.Dict, kids types.Array, at inherited) error {
	t := &pdfField{dict: d, kind: at.kind, flags: at.flags, da: at.da, align: at.align}
	if t.da == "" {
		t.da = p.text(p.acro["DA"])
	}
	f := &Field{Name: p.unique(at.name), Label: clean(at.label), Required: at.flags&flagRequired != 0, ReadOnly: at.flags&flagReadOnly != 0, target: t}
	if len(kids) == 0 {
		kids = types.Array{o}
	}
	for _, kid := range kids {
		w, err := p.ctx.DereferenceDict(kid)
		if err != nil || w == nil {
			continue
		}
		if ref, ok := kid.(types.IndirectRef); ok && f.Page == 0 {
			f.Page = p.pages[ref.ObjectNumber.Value()]
		}
		t.widgets = append(t.widgets, &widget{dict: w, on: p.onState(w)})
		p.findScripts(f, w)
	}
	p.findScripts(f, d)
	switch {
	case at.kind == "Sig" && at.value != nil:
		return wrong(signed, "the PDF is signed (field %q); filling it in would make the signature invalid", f.Name)
	case at.kind == "Sig":
		p.form.Warnings = append(p.form.Warnings, fmt.Sprintf("field %q is for a signature, which a person must add", f.Name))
		return nil
	case at.kind == "Btn" && at.flags&flagPushbutton != 0, !slices.Contains([]string{"Tx", "Btn", "Ch"}, at.kind):
		return nil
	case at.kind == "Tx" && at.flags&flagFileSelect != 0:
		p.form.Warnings = append(p.form.Warnings, fmt.Sprintf("field %q is for a file, which is not supported", f.Name))
		return nil
	}
	switch at.kind {
	case "Tx":
		p.describeText(f, at)
	case "Btn":
		p.describeButton(f, t, at)
	default:
		p.describeChoice(f, at)
	}
	if p.form.Fields = append(p.form.Fields, f); len(p.form.Fields) > MaxFields {
		return wrong(tooMany, "the form has more than %d fields", MaxFields)
	}
	return nil
}

// unique makes a name different from those before.
func (p *pdfForm) unique(name string) string {
	if name == "" {
		name = "field"
	}
	p.names[name]++
	if n := p.names[name]; n > 1 {
		return p.unique(fmt.Sprintf("%s (%d)", name, n))
	}
	return name
}

// write returns the PDF with the values filled in.
func (p *pdfForm) write(values map[*Field]any) ([]byte, error) {
	for _, f := range p.form.Fields {
		if v, ok := values[f]; ok {
			if err := p.fill(f, v); err != nil {
				return nil, err
			}
		}
	}
	var out bytes.Buffer
	if err := writeContext(p.ctx, &out); err != nil {
		return nil, wrong(broken, "the filled PDF cannot be written: %.200s", err)
	}
	return out.Bytes(), nil
}

func (p *pdfForm) text(o types.Object) string {
	o, err := p.ctx.Dereference(o)
	if err != nil {
		return ""
	}
	switch o := o.(type) {
	case types.Name:
		return nameText(o)
	case types.StringLiteral, types.HexLiteral:
		s, err := types.StringOrHexLiteral(o)
		if err != nil || s == nil {
			return ""
		}
		return *s
	case types.StreamDict: // long texts
		if err := o.Decode(); err == nil && len(o.Content) < 1<<20 {
			return string(o.Content)
		}
	}
	return ""
}

func (p *pdfForm) int(o types.Object, otherwise int) int {
	i, err := p.ctx.DereferenceInteger(o)
	if err != nil || i == nil {
		return otherwise
	}
	return i.Value()
}

func nameText(n types.Name) string {
	s, err := types.DecodeName(string(n))
	if err != nil {
		return string(n)
	}
	return s
}
