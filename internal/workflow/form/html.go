package form

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlForm is an open HTML document.
type htmlForm struct {
	root   *html.Node
	labels map[string]string // by the id of the control
	names  map[string]int
	radios map[string]*Field
	form   *Form
}

func openHTML(raw []byte) (*document, error) {
	root, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		return nil, wrong(broken, "the HTML cannot be read: %.200s", err)
	}
	h := &htmlForm{root: root, labels: map[string]string{}, names: map[string]int{}, radios: map[string]*Field{}, form: &Form{Kind: HTML}}
	at := h.choose()
	for n := range root.Descendants() {
		if id := attr(n, "for"); n.DataAtom == atom.Label && id != "" {
			h.labels[id] = clean(textOf(n))
		}
		if n.DataAtom == atom.Title && h.form.Title == "" {
			h.form.Title = clean(textOf(n))
		}
	}
	for n := range at.Descendants() {
		if err := h.add(n); err != nil {
			return nil, err
		}
	}
	return &document{form: h.form, write: h.write}, nil
}

// choose returns the form element with the most controls; without any, the whole document.
func (h *htmlForm) choose() *html.Node {
	var best *html.Node
	most, forms := -1, 0
	for n := range h.root.Descendants() {
		if n.DataAtom != atom.Form {
			continue
		}
		forms++
		count := 0
		for c := range n.Descendants() {
			if isControl(c) {
				count++
			}
		}
		if count > most {
			best, most = n, count
		}
	}
	if best == nil {
		return h.root
	}
	if forms > 1 {
		h.form.Warnings = append(h.form.Warnings, fmt.Sprintf("the document has %d forms; these are the fields of the one with the most", forms))
	}
	method := strings.ToUpper(attr(best, "method"))
	if method == "" {
		method = "GET"
	}
	h.form.Submit = &Submit{Action: attr(best, "action"), Method: method}
	return best
}

func isControl(n *html.Node) bool {
	return n.DataAtom == atom.Input || n.DataAtom == atom.Select || n.DataAtom == atom.Textarea
}

// add adds the field of a control.
func (h *htmlForm) add(n *html.Node) error {
	name := attr(n, "name")
	if !isControl(n) || name == "" || has(n, "disabled") {
		return nil
	}
	kind := strings.ToLower(attr(n, "type"))
	switch {
	case n.DataAtom != atom.Input:
		kind = n.Data
	case slices.Contains([]string{"hidden", "submit", "button", "image", "reset"}, kind):
		return nil
	case kind == "file":
		h.form.Warnings = append(h.form.Warnings, fmt.Sprintf("field %q is for a file, which is not supported", name))
		return nil
	case kind == "radio" && h.radios[name] != nil:
		h.addRadio(h.radios[name], n)
		return nil
	}
	f := &Field{Label: h.label(n), Required: has(n, "required"), ReadOnly: has(n, "readonly"), Pattern: attr(n, "pattern"), target: n}
	f.MaxLength, _ = strconv.Atoi(attr(n, "maxlength"))
	f.Minimum, f.Maximum = float(attr(n, "min")), float(attr(n, "max"))
	f.aliases = []string{attr(n, "autocomplete"), attr(n, "id")}
	h.describe(f, n, kind)
	h.names[name]++
	f.Name = name
	if count := h.names[name]; count > 1 || strings.HasSuffix(name, "[]") { // repeated controls are rows
		f.Name = fmt.Sprintf("%s[%d]", strings.TrimSuffix(name, "[]"), count)
	}
	if kind == "radio" {
		h.radios[name] = f
		f.Label = h.groupLabel(n)
		f.target = []*html.Node{}
		h.addRadio(f, n)
	}
	if h.form.Fields = append(h.form.Fields, f); len(h.form.Fields) > MaxFields {
		return wrong(tooMany, "the form has more than %d fields", MaxFields)
	}
	return nil
}

func (h *htmlForm) describe(f *Field, n *html.Node, kind string) {
	if value := attr(n, "value"); value != "" && kind != "checkbox" && kind != "radio" {
		f.Value = value
	}
	switch kind {
	case "number", "range":
		f.Type = number
	case "email":
		f.Type = email
	case "date":
		f.Type = date
	case "radio":
		f.Type = choice
	case "checkbox":
		f.Type = boolean
		if has(n, "checked") {
			f.Value = true
		}
	case "textarea":
		f.Type, f.Multiline = text, true
		if s := textOf(n); strings.TrimSpace(s) != "" {
			f.Value = s
		}
	case "select":
		h.describeSelect(f, n)
	default:
		f.Type = text
	}
}

func (h *htmlForm) describeSelect(f *Field, n *html.Node) {
	f.Type = choice
	if has(n, "multiple") {
		f.Type = choices
	}
	for o := range n.Descendants() {
		if o.DataAtom != atom.Option || has(o, "disabled") {
			continue
		}
		value, label := optionValue(o), clean(textOf(o))
		if value == "" { // "please choose"
			continue
		}
		if label == value {
			label = ""
		}
		f.Options = append(f.Options, Option{value, label})
		if has(o, "selected") && f.Type == choice {
			f.Value = value
		}
	}
}

func optionValue(o *html.Node) string {
	if has(o, "value") {
		return attr(o, "value")
	}
	return clean(textOf(o))
}

func (h *htmlForm) addRadio(f *Field, n *html.Node) {
	value, label := attr(n, "value"), h.label(n)
	if label == value {
		label = ""
	}
	f.Options = append(f.Options, Option{value, label})
	f.target = append(f.target.([]*html.Node), n)
	f.Required = f.Required || has(n, "required")
	if has(n, "checked") {
		f.Value = value
	}
}

// label returns the label of a control for a person.
func (h *htmlForm) label(n *html.Node) string {
	if id := attr(n, "id"); id != "" && h.labels[id] != "" {
		return h.labels[id]
	}
	for p := n.Parent; p != nil; p = p.Parent {
		if p.DataAtom == atom.Label {
			return clean(textOf(p))
		}
	}
	for _, key := range []string{"aria-label", "title", "placeholder"} {
		if s := clean(attr(n, key)); s != "" {
			return s
		}
	}
	return ""
}

// groupLabel returns the legend of the fieldset around a radio button.
func (h *htmlForm) groupLabel(n *html.Node) string {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.DataAtom != atom.Fieldset {
			continue
		}
		for c := range p.ChildNodes() {
			if c.DataAtom == atom.Legend {
				return clean(textOf(c))
			}
		}
	}
	return ""
}

// write returns the document with the values as the state of its controls.
func (h *htmlForm) write(values map[*Field]any) ([]byte, error) {
	for f, v := range values {
		switch n := f.target.(type) {
		case []*html.Node:
			for _, radio := range n {
				setFlag(radio, "checked", attr(radio, "value") == v)
			}
		case *html.Node:
			h.fill(f, n, v)
		}
	}
	var out bytes.Buffer
	if err := html.Render(&out, h.root); err != nil {
		return nil, wrong(broken, "the filled HTML cannot be written: %.200s", err)
	}
	return out.Bytes(), nil
}

func (h *htmlForm) fill(f *Field, n *html.Node, v any) {
	switch {
	case f.Type == boolean:
		setFlag(n, "checked", v == true)
	case n.DataAtom == atom.Select:
		chosen := textsOf(v)
		for o := range n.Descendants() {
			if o.DataAtom == atom.Option {
				setFlag(o, "selected", slices.Contains(chosen, optionValue(o)))
			}
		}
	case n.DataAtom == atom.Textarea:
		for n.FirstChild != nil {
			n.RemoveChild(n.FirstChild)
		}
		n.AppendChild(&html.Node{Type: html.TextNode, Data: shown(f, v)})
	default:
		setAttr(n, "value", shown(f, v))
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
}

func setAttr(n *html.Node, key, value string) {
	for i, a := range n.Attr {
		if a.Key == key {
			n.Attr[i].Val = value
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: value})
}

func setFlag(n *html.Node, key string, on bool) {
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
	if on {
		n.Attr = append(n.Attr, html.Attribute{Key: key, Val: key})
	}
}

// textOf returns the text within a node, without that of controls.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode && (c.Parent == n || !isControl(c.Parent) && c.Parent.DataAtom != atom.Option) {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

func float(s string) *float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return &v
}
