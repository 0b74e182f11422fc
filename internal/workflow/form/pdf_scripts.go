package form

import (
	"regexp"
	"strings"

	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
)

// findScripts looks for scripts of a field. One that only formats a date is understood: its
// format becomes that of the field.
func (p *pdfForm) findScripts(f *Field, d types.Dict) {
	actions, err := p.ctx.DereferenceDict(d["AA"])
	if err != nil {
		return
	}
	for _, action := range actions {
		s := p.script(action)
		if s == "" {
			if p.hasScript(action, 0) {
				p.scripts[f.Name] = true
			}
			continue
		}
		if m := dateScript.FindStringSubmatch(s); m != nil {
			if format := dateFormat(m[1]); format != "" {
				f.Format = format
				continue
			}
		}
		p.scripts[f.Name] = true
	}
	if d["A"] != nil && p.hasScript(d["A"], 0) {
		p.scripts[f.Name] = true
	}
}

// dateScript is the script that programs write for the format of a date.
var dateScript = regexp.MustCompile(`^\s*AFDate_(?:FormatEx|KeystrokeEx)\(\s*["']([dmyDMY ./-]+)["']\s*\)\s*;?\s*$`)

// script returns the text of a JavaScript action.
func (p *pdfForm) script(o types.Object) string {
	action, err := p.ctx.DereferenceDict(o)
	if err != nil || action == nil || p.text(action["S"]) != "JavaScript" || action["Next"] != nil {
		return ""
	}
	return p.text(action["JS"])
}

// hasScript reports whether an action, one that follows it, or one of a dictionary of actions is
// JavaScript.
func (p *pdfForm) hasScript(o types.Object, depth int) bool {
	if p.nodes++; p.nodes > maxNodes || depth > maxFieldDepth {
		return true
	}
	o, err := p.ctx.Dereference(o)
	if err != nil {
		return false
	}
	switch o := o.(type) {
	case types.Array:
		for _, x := range o {
			if p.hasScript(x, depth+1) {
				return true
			}
		}
	case types.Dict:
		if o["JS"] != nil || p.text(o["S"]) == "JavaScript" {
			return true
		}
		for key, x := range o {
			switch x.(type) {
			case types.Dict, types.Array, types.IndirectRef:
				if key != "D" && key != "P" && key != "Parent" && key != "Kids" && p.hasScript(x, depth+1) {
					return true
				}
			}
		}
	}
	return false
}

// findDocumentScripts looks for scripts that run when the document is opened, closed or printed.
func (p *pdfForm) findDocumentScripts(root types.Dict) {
	names, _ := p.ctx.DereferenceDict(root["Names"])
	for what, o := range map[string]types.Object{"OpenAction": root["OpenAction"], "the document": root["AA"], "the document's code": names["JavaScript"]} {
		if _, destination := o.(types.Array); !destination && o != nil && p.hasScript(o, 0) {
			p.scripts[what] = true
		}
	}
	if names["JavaScript"] != nil {
		p.scripts["the document's code"] = true
	}
	if order, _ := p.ctx.DereferenceArray(p.acro["CO"]); len(order) > 0 {
		p.scripts["computed fields"] = true
	}
}

// dateFormat converts a format of Acrobat, such as dd.mm.yyyy, to ours; "" if it has other parts.
func dateFormat(s string) string {
	var out strings.Builder
	for _, part := range regexp.MustCompile(`[a-zA-Z]+|[^a-zA-Z]+`).FindAllString(strings.ToLower(strings.TrimSpace(s)), -1) {
		switch part {
		case "yyyy", "mm", "dd", "m", "d", "yy":
			out.WriteString(strings.ToUpper(part))
		case "-", "/", ".", " ", ". ":
			out.WriteString(part)
		default:
			return ""
		}
	}
	return out.String()
}

// formatIn returns the date format that a label names, such as "Date of birth (DD/MM/YYYY)".
func formatIn(label string) string {
	m := formatHint.FindString(label)
	if m == "" {
		return ""
	}
	return dateFormat(m)
}

var formatHint = regexp.MustCompile(`(?i)\b(?:yyyy[-/. ]mm[-/. ]dd|(?:dd|mm)[-/. ](?:dd|mm)[-/. ]yyyy)\b`)
