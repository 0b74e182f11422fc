package form

import (
	"slices"

	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
)

// describeText describes a field for text or a date.
func (p *pdfForm) describeText(f *Field, at inherited) {
	f.Type, f.MaxLength, f.Multiline = text, at.length, at.flags&flagMultiline != 0
	if f.Format == "" {
		f.Format = formatIn(f.Label)
	}
	if f.Format != "" {
		f.Type = date
	}
	if v := p.text(at.value); v != "" {
		f.Value = v
	}
}

// describeButton describes a checkbox, or a group of buttons of which one is selected.
func (p *pdfForm) describeButton(f *Field, t *pdfField, at inherited) {
	now, _ := p.ctx.Dereference(at.value)
	state, _ := now.(types.Name)
	labels, _ := p.ctx.DereferenceArray(at.options)
	for i, w := range t.widgets {
		if w.on == "" || slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == w.on }) {
			continue
		}
		o := Option{Value: w.on}
		if i < len(labels) {
			o.Label = p.text(labels[i])
		}
		if s := p.text(w.dict["TU"]); s != "" && o.Label == "" && len(t.widgets) > 1 {
			o.Label = clean(s)
		}
		f.Options = append(f.Options, o)
	}
	if len(f.Options) <= 1 && at.flags&flagRadio == 0 {
		f.Type, f.Options = boolean, nil
		if state != "" && state != "Off" {
			f.Value = true
		}
		return
	}
	f.Type = choice
	if state != "" && state != "Off" {
		f.Value = nameText(state)
	}
}

func (p *pdfForm) describeChoice(f *Field, at inherited) {
	options, _ := p.ctx.DereferenceArray(at.options)
	for _, o := range options {
		if pair, err := p.ctx.DereferenceArray(o); err == nil && len(pair) == 2 {
			value, label := p.text(pair[0]), p.text(pair[1])
			if label == value {
				label = ""
			}
			f.Options = append(f.Options, Option{value, label})
			continue
		}
		f.Options = append(f.Options, Option{Value: p.text(o)})
	}
	f.Type, f.Open = choice, at.flags&flagCombo != 0 && at.flags&flagEdit != 0
	if at.flags&flagMultiSelect != 0 && at.flags&flagCombo == 0 {
		f.Type = choices
	}
	if v := p.text(at.value); v != "" {
		f.Value = v
	}
}

// onState returns the state of a button that selects it: the appearance that is not Off.
func (p *pdfForm) onState(w types.Dict) string {
	ap, err := p.ctx.DereferenceDict(w["AP"])
	if err != nil || ap == nil {
		return ""
	}
	for _, key := range []string{"N", "D"} {
		states, err := p.ctx.DereferenceDict(ap[key])
		if err != nil {
			continue
		}
		for _, name := range slices.Sorted(mapsKeys(states)) {
			if name != "Off" {
				return nameText(types.Name(name))
			}
		}
	}
	return ""
}
