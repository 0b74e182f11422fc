package form

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// request is a request to the confined process about a document.
type request struct {
	Op      string          `json:"op"`                // "open" or "fill"
	Data    json.RawMessage `json:"data,omitempty"`    // object: the values to fill in
	Profile json.RawMessage `json:"profile,omitempty"` // object or null: for fields without a value
	Answers json.RawMessage `json:"answers,omitempty"` // object: by the exact names of fields
	// IgnoreScripts fills a PDF although it has scripts, which are not run.
	IgnoreScripts bool `json:"ignore_scripts,omitempty"`
}

// answer is the result: an error of the whole document, a form, or a filled form.
type answer struct {
	Error  *Problem `json:"error,omitempty"`
	Form   *Form    `json:"form,omitempty"`
	Filled *filled  `json:"filled,omitempty"`
}

// filled is a form with values. Document is nil if there are problems or missing values.
type filled struct {
	Values   map[string]any `json:"values"`
	Problems []Problem      `json:"problems,omitempty"`
	Missing  []question     `json:"missing,omitempty"`
	Unused   []string       `json:"unused,omitempty"` // paths of data that no field takes
	Review   string         `json:"review"`           // Markdown
	Document []byte         `json:"document,omitempty"`
}

// question is a required field without a value, with the JSON schema of an answer.
type question struct {
	Name   string         `json:"name"`
	Schema map[string]any `json:"schema"`
}

// Sources of a value in a review.
const (
	fromData    = "data"
	fromProfile = "profile"
	fromPerson  = "answer"
	fromForm    = "form"
)

// handle answers a request about a document. It runs in the confined process.
func handle(r request, raw []byte) (a answer) {
	defer func() {
		if v := recover(); v != nil { // a library failed on the document
			a = answer{Error: &Problem{Problem: broken, Message: "the document cannot be processed: it is malformed"}}
		}
	}()
	d, err := open(raw)
	if err == nil && r.Op == "open" {
		return answer{Form: d.form}
	}
	var f *filled
	if err == nil {
		f, err = d.fill(r)
	}
	if err != nil {
		p, ok := err.(*documentError)
		if !ok {
			p = &documentError{Problem: broken, Message: fmt.Sprintf("the document cannot be processed: %.200s", err)}
		}
		return answer{Error: (*Problem)(p)}
	}
	return answer{Filled: f}
}

// fill maps, checks and writes.
func (d *document) fill(r request) (*filled, error) {
	if d.form.Scripts > 0 && !r.IgnoreScripts {
		return nil, wrong(scripts, "%s; fill it with ignore_scripts=True if that is acceptable", d.form.Warnings[len(d.form.Warnings)-1])
	}
	data, profile, answers, err := r.values()
	if err != nil {
		return nil, err
	}
	leaves := flatten(data)
	fields := d.form.Fields
	if d.expand != nil {
		if fields = d.expand(rowsOf(leaves)); len(fields) > MaxFields {
			return nil, wrong(tooMany, "with the rows of the data, the form has more than %d fields", MaxFields)
		}
	}
	s := &session{document: d, fields: fields, values: map[*Field]any{}, sources: map[*Field]string{}}
	for _, f := range fields {
		if v, ok := answers[f.Name]; ok && v != nil && v != "" {
			s.put(f, v, fromPerson)
		}
	}
	s.take(leaves, fromData)
	s.problems = append(s.problems, rowProblems(fields, leaves, s.taken)...)
	if profile != nil {
		s.take(flatten(profile), fromProfile)
	}
	return s.end(leaves)
}

func (r request) values() (data, profile, answers map[string]any, err error) {
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		into *map[string]any
	}{{"data", r.Data, &data}, {"profile", r.Profile, &profile}, {"answers", r.Answers, &answers}} {
		if len(part.raw) == 0 || string(part.raw) == "null" {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(string(part.raw)))
		dec.UseNumber()
		if err := dec.Decode(part.into); err != nil {
			return nil, nil, nil, wrong(wrongType, "%s must be an object of values by name", part.name)
		}
	}
	return data, profile, answers, nil
}

// session collects the values of one filling.
type session struct {
	*document
	fields   []*Field
	values   map[*Field]any
	sources  map[*Field]string
	problems []Problem
	taken    map[*Field]*leaf
}

// put checks a value and keeps it, or the problem with it.
func (s *session) put(f *Field, v any, source string) {
	s.sources[f] = source
	if f.ReadOnly {
		s.problems = append(s.problems, Problem{f.Name, readOnly, f.title() + ": the field cannot be changed"})
		return
	}
	value, problem := check(f, v)
	if problem == nil && s.fit != nil {
		problem = s.fit(f, value)
	}
	if problem != nil {
		s.problems = append(s.problems, *problem)
		return
	}
	s.values[f] = value
}

// take matches values with the fields that have none.
func (s *session) take(leaves []*leaf, source string) {
	s.taken = map[*Field]*leaf{}
	var open []*Field
	for _, f := range s.fields {
		named := slices.ContainsFunc(leaves, func(l *leaf) bool { return l.path == f.Name })
		if s.sources[f] == "" && (!f.ReadOnly || named) {
			open = append(open, f)
		}
	}
	match(open, leaves, s.taken)
	for _, f := range open {
		if l := s.taken[f]; l != nil && (source == fromData || f.Value == nil) {
			s.put(f, l.value, source)
		}
	}
}

// end reports what is missing, and writes the document if nothing is.
func (s *session) end(leaves []*leaf) (*filled, error) {
	out := &filled{Values: map[string]any{}, Problems: s.problems}
	for _, f := range s.fields {
		v, ok := s.values[f]
		if ok {
			out.Values[f.Name] = v
		}
		absent := s.sources[f] == "" && f.Value == nil || s.form.Kind == HTML && f.Type == boolean && v == false
		if f.Required && !f.ReadOnly && !f.Repeats && absent {
			out.Missing = append(out.Missing, question{f.Name, askFor(f)})
		}
	}
	for _, l := range leaves {
		if !l.used {
			out.Unused = append(out.Unused, l.path)
		}
	}
	out.Review = s.review()
	if len(out.Problems) > 0 || len(out.Missing) > 0 {
		return out, nil
	}
	var err error
	out.Document, err = s.write(s.values)
	return out, err
}

// askFor returns the JSON schema of the answer to a question for a field.
func askFor(f *Field) map[string]any {
	schema := map[string]any{"type": "string", "title": f.title()}
	switch f.Type {
	case boolean:
		schema["type"] = "boolean"
	case number, integer:
		schema["type"] = f.Type
	case date:
		schema["description"] = "A date, as YYYY-MM-DD" + orFormat(f)
	case email:
		schema["format"] = "email"
	case choice, choices:
		var names []string
		for _, o := range f.Options {
			names = append(names, o.text())
		}
		if len(names) > 0 && !f.Open {
			schema["enum"] = names
		}
	}
	if f.MaxLength > 0 {
		schema["maxLength"] = f.MaxLength
	}
	return schema
}

// review returns a Markdown table of the values that are filled in or missing.
func (s *session) review() string {
	var b strings.Builder
	b.WriteString("| Field | Value | From |\n|---|---|---|\n")
	for _, f := range s.fields {
		v, ok := s.values[f]
		source := s.sources[f]
		switch {
		case ok:
		case source != "":
			v = "(see problems)"
		case f.Value != nil:
			v, source = f.Value, fromForm
		case f.Required && !f.Repeats:
			v, source = "(missing)", ""
		default:
			continue
		}
		// With the colon, no row looks like the header of a table with names of values, which
		// would make the detection of personal data read the next rows as such values.
		fmt.Fprintf(&b, "| %s: | %s | %s |\n", cell(strings.TrimRight(f.title(), ":")), cell(reviewText(f, v)), source)
	}
	return b.String()
}

func reviewText(f *Field, v any) string {
	if b, ok := v.(bool); ok {
		return map[bool]string{true: "yes", false: "no"}[b]
	}
	return optionText(f, shown(f, v))
}

// cell makes a text safe for a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "\r", "", "<", "&lt;", "\n", "<br>").Replace(s)
}
