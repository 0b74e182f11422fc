// Package form reads and fills forms: the AcroForm of a PDF, an HTML page, and a JSON Schema.
//
// A document is untrusted. Parser, the only part that the daemon uses, starts the program again
// in a confined process (package confine), which parses the document, maps the data to its
// fields, checks the values and writes the filled copy. The daemon passes its bytes on and
// parses neither the document nor the answer of the process about it.
//
// Terms: a field has a name, unique in its form, and a label that a person reads. Fields that
// repeat, such as the lines of a table, belong to a group and have a row. A problem is why a
// value cannot be filled in; a form with problems is not written at all.
//
// All functions are safe for concurrent use. The package does not render pages, run scripts of a
// document, sign, or send anything.
package form

import (
	"fmt"
	"strings"
)

// Kinds of documents.
const (
	PDF        = "pdf"
	HTML       = "html"
	JSONSchema = "json_schema"
)

// Types of fields.
const (
	text    = "text"
	number  = "number"
	integer = "integer"
	date    = "date"
	email   = "email"
	boolean = "boolean" // a checkbox
	choice  = "choice"  // one of the options: a radio group or a list
	choices = "choices" // several of them
)

// Form describes a document for a person.
type Form struct {
	Kind     string   `json:"kind"`
	Title    string   `json:"title,omitempty"`
	Pages    int      `json:"pages,omitempty"`
	Fields   []*Field `json:"fields"`
	Warnings []string `json:"warnings,omitempty"`
	Scripts  int      `json:"scripts,omitempty"` // of a PDF: scripts that Sandpiper does not run
	Submit   *Submit  `json:"submit,omitempty"`  // of an HTML form
}

// Submit is how a browser would send an HTML form.
type Submit struct {
	Action string `json:"action,omitempty"`
	Method string `json:"method"`
}

// Field is one value to fill in.
type Field struct {
	Name      string   `json:"name"`
	Label     string   `json:"label,omitempty"` // "" means that the name is all there is
	Type      string   `json:"type"`
	Page      int      `json:"page,omitempty"`
	Required  bool     `json:"required,omitempty"`
	ReadOnly  bool     `json:"read_only,omitempty"`
	Multiline bool     `json:"multiline,omitempty"`
	MaxLength int      `json:"max_length,omitempty"` // characters; 0 means any number
	Options   []Option `json:"options,omitempty"`
	Open      bool     `json:"other_values,omitempty"` // a choice that also accepts other values
	Format    string   `json:"format,omitempty"`       // of a date: YYYY, MM, DD, M, D and separators; "" means YYYY-MM-DD
	Pattern   string   `json:"pattern,omitempty"`      // of HTML and JSON Schema: a regular expression
	Minimum   *float64 `json:"minimum,omitempty"`
	Maximum   *float64 `json:"maximum,omitempty"`
	Value     any      `json:"value,omitempty"`   // present value
	Group     string   `json:"group,omitempty"`   // of a repeated field
	Row       int      `json:"row,omitempty"`     // from 1
	Column    string   `json:"column,omitempty"`  // name within the row
	Repeats   bool     `json:"repeats,omitempty"` // of a JSON Schema: any number of rows

	aliases []string // further names under which data may have the value
	target  any      // where the writer of its kind puts the value
}

// Option is one value of a choice.
type Option struct {
	Value string `json:"value"`
	Label string `json:"label,omitempty"` // "" means the value
}

func (o Option) text() string {
	if o.Label != "" {
		return o.Label
	}
	return o.Value
}

// title is the name of the field for a person.
func (f *Field) title() string {
	if f.Label != "" {
		return f.Label
	}
	return f.Name
}

// Problem is why a document cannot be read, or a value not be filled in.
type Problem struct {
	Field   string `json:"field,omitempty"` // name; "" means the whole document
	Problem string `json:"problem"`         // one of the names below
	Message string `json:"message"`
}

// Names of problems of a document.
const (
	noFields  = "no_fields"
	encrypted = "encrypted"
	broken    = "broken"
	scripts   = "scripts"
	xfa       = "xfa"
	signed    = "signed"
	unknown   = "unknown_kind"
	tooMany   = "too_many_fields"
	tooLarge  = "too_large"
)

// Names of problems of a value.
const (
	tooLong     = "too_long"
	wrongType   = "wrong_type"
	notOption   = "not_an_option"
	outOfRange  = "out_of_range"
	mismatch    = "pattern"
	readOnly    = "read_only"
	characters  = "characters"
	tooManyRows = "too_many_rows"
	missing     = "missing"
)

// documentError is a problem of the whole document.
type documentError Problem

func (e *documentError) Error() string { return e.Message }

func wrong(problem, format string, args ...any) error {
	return &documentError{Problem: problem, Message: fmt.Sprintf(format, args...)}
}

// MaxFields is the limit on the fields of one form.
const MaxFields = 5000

// document is an open document: its form, and the writer of its kind.
type document struct {
	form *Form
	// fit returns why a valid text cannot be shown in a field, or nil; nil means that any can.
	fit func(f *Field, value any) *Problem
	// write returns the document with the values, by field.
	write func(values map[*Field]any) ([]byte, error)
	// expand returns the fields for data with this number of rows in each group; nil means
	// that a form has the rows that it has.
	expand func(rows map[string]int) []*Field
}

// open opens a document of any kind, which is detected from its content.
func open(raw []byte) (*document, error) {
	var d *document
	var err error
	switch start := strings.TrimSpace(strings.TrimPrefix(string(raw[:min(len(raw), 1024)]), "\ufeff")); {
	case strings.Contains(start, "%PDF-"):
		d, err = openPDF(raw)
	case strings.HasPrefix(start, "{"):
		d, err = openSchema(raw)
	case strings.HasPrefix(start, "<"):
		d, err = openHTML(raw)
	default:
		err = wrong(unknown, "the file is neither a PDF nor HTML nor a JSON Schema")
	}
	switch {
	case err != nil:
		return nil, err
	case len(d.form.Fields) > MaxFields:
		return nil, wrong(tooMany, "the form has %d fields; at most %d are supported", len(d.form.Fields), MaxFields)
	case len(d.form.Fields) == 0:
		return nil, wrong(noFields, "the document has no fields that can be filled in")
	}
	findRows(d.form.Fields)
	return d, nil
}
