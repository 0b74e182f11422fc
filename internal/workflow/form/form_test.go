package form

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/workflow/form/formtest"
)

// applicant is data as code finds it in a document: with names of its own.
const applicant = `{"last_name": "Kowalczyk-Łęcki", "first_name": "Zoë", "birth_date": "1990-04-05", "birthplace": "Kraków",
	"passport": "AB1234567", "gender": "female", "citizenship": "Poland",
	"address": {"street": "12 Rue de l'Église", "zip": "75001", "city": "Paris"},
	"email": "zoe@example.com", "phone": "+33 1 23 45 67 89", "purposes": ["Work", "Research"],
	"reasons": "I have been offered a position at the observatory.\nMy family lives in Arcadia already, and I speak the language.",
	"children": [{"name": "Ada", "born": "2015-06-07"}, {"name": "Max", "born": "2018-01-02"}], "consent": true, "signed_on": "2026-11-24", "shoe_size": 38}`

func fillIn(t *testing.T, doc []byte, r request) *filled {
	t.Helper()
	r.Op = "fill"
	a := handle(r, doc)
	if a.Error != nil {
		t.Fatalf("error: %+v", *a.Error)
	}
	return a.Filled
}

func TestFillPDF(t *testing.T) {
	f := fillIn(t, formtest.Application(), request{Data: json.RawMessage(applicant)})
	want := map[string]any{
		"surname": "Kowalczyk-Łęcki", "given_names": "Zoë", "dob": "05.04.1990", "pob": "Kraków", "passport_no": "AB1234567", "sex": "Female", "nationality": "PL",
		"addr_street": "12 Rue de l'Église", "addr_zip": "75001", "addr_town": "Paris", "contact_mail": "zoe@example.com", "contact_tel": "+33 1 23 45 67 89",
		"purposes": []any{"Work", "Research"}, "reasons": "I have been offered a position at the observatory.\nMy family lives in Arcadia already, and I speak the language.",
		"child_1_name": "Ada", "child_1_born": "07.06.2015", "child_2_name": "Max", "child_2_born": "02.01.2018", "consent": true, "signed_on": "2026-11-24",
	}
	if diff := cmp.Diff(want, f.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shoe_size"}, f.Unused); diff != "" || len(f.Problems)+len(f.Missing) > 0 {
		t.Errorf("unused: %s\nproblems: %v, missing: %v", diff, f.Problems, f.Missing)
	}
	again, err := open(f.Document)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, field := range again.form.Fields {
		if field.Value != nil {
			got[field.Name] = field.Value
		}
	}
	delete(want, "purposes") // a list, which the form does not describe
	delete(got, "purposes")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

// namesOfProblems returns "field problem" of each problem, sorted.
func namesOfProblems(f *filled) []string {
	var all []string
	for _, p := range f.Problems {
		all = append(all, p.Field+" "+p.Problem)
	}
	for _, q := range f.Missing {
		all = append(all, q.Name+" "+missing)
	}
	slices.Sort(all)
	return all
}

func TestFillReportsAllProblemsAtOnce(t *testing.T) {
	const data = `{"surname": "Ω Omega", "dob": "next week", "passport_no": "AB12345678", "sex": "unknown", "nationality": "XX", "email": "nobody",
		"purposes": ["Work", "Fun"], "reasons": %q, "consent": "perhaps", "given_names": ["a", "b"], "zip": "12345678901",
		"street": "x\ny", "children": [{"name": "1"}, {"name": "2"}, {"name": "3"}, {"name": "4"}]}`
	f := fillIn(t, formtest.Application(), request{Data: json.RawMessage(fmt.Sprintf(data, strings.Repeat("many words ", 500)))})
	want := []string{
		"addr_street wrong_type", "addr_town missing", "addr_zip too_long", "child too_many_rows", "consent wrong_type", "contact_mail wrong_type", "dob wrong_type",
		"given_names wrong_type", "nationality not_an_option", "passport_no too_long", "purposes not_an_option", "reasons too_long", "sex not_an_option", "signed_on missing", "surname characters",
	}
	// The e-mail field of a PDF is a text.
	want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "contact_mail") })
	if diff := cmp.Diff(want, namesOfProblems(f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f.Document != nil {
		t.Error("a document with problems was written")
	}
	for _, p := range f.Problems { // values may be private
		for _, value := range []string{"Omega", "next week", "12345678", "nobody", "Fun", "many words", "perhaps"} {
			if strings.Contains(p.Message, value) {
				t.Errorf("the message contains a value: %s", p.Message)
			}
		}
	}
}

func TestFillTakesAnswersAndTheProfile(t *testing.T) {
	doc := formtest.Application()
	profile := json.RawMessage(`{"full_name": "not used", "email": "profile@example.com", "surname": "Profile", "nationality": "Turkey"}`)
	f := fillIn(t, doc, request{Data: json.RawMessage(`{"surname": "Data"}`), Profile: profile, Answers: json.RawMessage(`{"given_names": "Answer"}`)})
	got := map[string]any{}
	for _, name := range []string{"surname", "given_names", "contact_mail", "nationality"} {
		got[name] = f.Values[name]
	}
	if diff := cmp.Diff(map[string]any{"surname": "Data", "given_names": "Answer", "contact_mail": "profile@example.com", "nationality": "TR"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(f.Review, "| Given names: | Answer | answer |\n") || !strings.Contains(f.Review, "| Nationality: | Turkey | profile |\n") || !strings.Contains(f.Review, "| Town: | (missing) |  |\n") {
		t.Errorf("review:\n%s", f.Review)
	}
	if i := slices.IndexFunc(f.Missing, func(q question) bool { return q.Name == "sex" }); i < 0 {
		t.Error("sex is not missing")
	} else if diff := cmp.Diff(map[string]any{"type": "string", "title": "Sex", "enum": []string{"Female", "Male", "Other"}}, f.Missing[i].Schema); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// withField returns a PDF with one field, after change.
func withField(change func(b *formtest.Builder)) []byte {
	b := formtest.NewBuilder()
	b.TextField(50, 700, 200, 17, "name", "Name", 0, "")
	change(b)
	return b.Bytes()
}

func TestDocumentsThatCannotBeFilled(t *testing.T) {
	plain := withField(func(*formtest.Builder) {})
	for name, test := range map[string]struct {
		doc  []byte
		want string
	}{
		"a PDF without fields": {formtest.NewBuilder().Bytes(), noFields},
		"a PDF without a form": {[]byte(strings.Replace(string(plain), "/AcroForm 3 0 R", "/AcroFork 3 0 R", 1)), noFields},
		"an encrypted PDF": {withField(func(b *formtest.Builder) {
			n := b.Add("<< /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <" + strings.Repeat("28", 32) + "> /U <" + strings.Repeat("29", 32) + "> >>")
			b.Trailer = fmt.Sprintf("/Encrypt %d 0 R /ID [<0102> <0102>]", n)
		}), encrypted},
		"a PDF that ends early": {plain[:len(plain)/3], broken},
		"nothing but a header":  {[]byte("%PDF-1.7\n"), broken},
		"a PDF with XFA":        {withField(func(b *formtest.Builder) { b.AcroForm = "/XFA (<xdp/>)" }), xfa},
		"a PDF with an XFA stream": {withField(func(b *formtest.Builder) {
			b.AcroForm = fmt.Sprintf("/XFA [(template) %d 0 R]", b.Stream("", []byte("<xdp/>")))
		}), xfa},
		"a script of a field": {withField(func(b *formtest.Builder) {
			b.TextField(50, 600, 100, 17, "sum", "Sum", 0, "/AA << /C << /S /JavaScript /JS (event.value = 1) >> >>")
		}), scripts},
		"a script of the document": {withField(func(b *formtest.Builder) { b.Catalog = "/OpenAction << /S /JavaScript /JS (app.alert(1)) >>" }), scripts},
		"a named script": {withField(func(b *formtest.Builder) {
			b.Catalog = "/Names << /JavaScript << /Names [(a) << /S /JavaScript /JS (1) >>] >> >>"
		}), scripts},
		"a hidden script": {withField(func(b *formtest.Builder) {
			b.Catalog = "/OpenAction << /S /GoTo /D [5 0 R /Fit] /Next << /S /JavaScript /JS (1) >> >>"
		}), scripts},
		"a signed PDF": {withField(func(b *formtest.Builder) {
			b.Field(50, 600, 100, 50, "/FT /Sig /T (signature) /V << /Type /Sig /Filter /Adobe.PPKLite >>")
		}), signed},
		"too many fields":        {withField(func(b *formtest.Builder) { many(b, MaxFields) }), tooMany},
		"plain text":             {[]byte("hello"), unknown},
		"nothing":                {nil, unknown},
		"JSON that is no schema": {[]byte(`{"a": 1}`), unknown},
		"broken JSON":            {[]byte(`{"properties": {`), broken},
		"HTML without fields":    {[]byte(`<p>hello</p>`), noFields},
	} {
		t.Run(name, func(t *testing.T) {
			a := handle(request{Op: "fill", Data: json.RawMessage(`{"name": "x"}`)}, test.doc)
			if a.Error == nil || a.Error.Problem != test.want || a.Error.Message == "" {
				t.Errorf("got %+v, want the problem %s", a.Error, test.want)
			}
		})
	}
}

func many(b *formtest.Builder, n int) {
	for i := range n {
		b.TextField(10, 10, 100, 10, fmt.Sprintf("f%d x", i), "", 0, "")
	}
}

func TestScriptsCanBeIgnored(t *testing.T) {
	doc := withField(func(b *formtest.Builder) { b.Catalog = "/OpenAction << /S /JavaScript /JS (app.alert(1)) >>" })
	if f := fillIn(t, doc, request{Data: json.RawMessage(`{"name": "x"}`), IgnoreScripts: true}); f.Document == nil {
		t.Errorf("not filled: %+v", f)
	}
	// A script that only states the format of a date is understood.
	doc = withField(func(b *formtest.Builder) {
		b.TextField(50, 600, 100, 17, "day", "Day", 0, `/AA << /F << /S /JavaScript /JS (AFDate_FormatEx\("dd/mm/yyyy"\);) >> >>`)
	})
	if f := fillIn(t, doc, request{Data: json.RawMessage(`{"name": "x", "day": "2026-11-24"}`)}); f.Values["day"] != "24/11/2026" {
		t.Errorf("day: %v", f.Values["day"])
	}
}

func TestTwoThousandFields(t *testing.T) {
	doc := withField(func(b *formtest.Builder) { many(b, 2000) })
	f := fillIn(t, doc, request{Data: json.RawMessage(`{"f1999 x": "last", "name": "first"}`)})
	if diff := cmp.Diff(map[string]any{"f1999 x": "last", "name": "first"}, f.Values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFillHTML(t *testing.T) {
	const data = `{"last_name": "O'Neil <b>", "first_name": "Zoë", "dob": "1990-04-05", "gender": "Male", "citizenship": "PL", "email": "zoe@example.com", "postcode": "75001",
		"reasons": "one\ntwo", "children": [{"child": "Ada", "born": "2015-06-07"}, {"child": "Max", "born": "2018-01-02"}], "consent": "yes"}`
	f := fillIn(t, []byte(formtest.HTMLApplication), request{Data: json.RawMessage(data)})
	want := map[string]any{"surname": "O'Neil <b>", "given_names": "Zoë", "dob": "1990-04-05", "sex": "m", "nationality": "PL", "contact": "zoe@example.com", "zip": "75001",
		"reasons": "one\ntwo", "child[1]": "Ada", "born[1]": "2015-06-07", "child[2]": "Max", "born[2]": "2018-01-02", "consent": true}
	if diff := cmp.Diff(want, f.Values); diff != "" || len(f.Problems)+len(f.Missing) > 0 {
		t.Fatalf("(-want +got):\n%s\nproblems: %v, missing: %v", diff, f.Problems, f.Missing)
	}
	for _, part := range []string{`value="O&#39;Neil &lt;b&gt;"`, `value="m" checked="checked"`, `<option value="PL" selected="selected">`, "one\ntwo</textarea>", `name="consent" value="1" required="" checked="checked"`, `value="t0ken"`, `name="child[]" value="Max"`} {
		if !strings.Contains(string(f.Document), part) {
			t.Errorf("the document lacks %s:\n%s", part, f.Document)
		}
	}
	again, err := open(f.Document)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range again.form.Fields {
		if diff := cmp.Diff(want[field.Name], field.Value); diff != "" {
			t.Errorf("%s read again: %s", field.Name, diff)
		}
	}
	if diff := cmp.Diff(&Submit{"https://permits.example/apply", "POST"}, again.form.Submit); diff != "" {
		t.Error(diff)
	}
}

func TestHTMLConsentIsRequired(t *testing.T) {
	f := fillIn(t, []byte(`<form><input type=checkbox name=consent required><input type=number name=age min=18><input name=zip pattern="[0-9]+"></form>`),
		request{Data: json.RawMessage(`{"consent": false, "age": 17, "zip": "abc"}`)})
	if diff := cmp.Diff([]string{"age out_of_range", "consent missing", "zip pattern"}, namesOfProblems(f)); diff != "" {
		t.Error(diff)
	}
}

const orderSchema = `{"title": "Order", "type": "object", "required": ["customer", "items"], "additionalProperties": false, "properties": {
	"customer": {"$ref": "#/$defs/person"}, "delivery": {"type": "string", "format": "date"}, "express": {"type": "boolean", "default": false},
	"items": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["sku", "quantity"], "properties": {"sku": {"type": "string", "pattern": "^[A-Z]-[0-9]+$"}, "quantity": {"type": "integer", "minimum": 1}}}}},
	"$defs": {"person": {"type": "object", "required": ["name", "email"], "properties": {"name": {"type": "string"}, "email": {"type": "string", "format": "email"}, "likes": {"type": "array", "items": {"enum": ["tea", "coffee"]}}}}}}`

func TestFillJSONSchema(t *testing.T) {
	f := fillIn(t, []byte(orderSchema), request{Data: json.RawMessage(`{"customer": {"name": "Ada", "e_mail": "ada@example.com", "likes": ["tea"]}, "items": [{"sku": "A-1", "quantity": "2"}, {"sku": "B-2", "quantity": 1}], "delivery": "2026-12-01"}`)})
	var got any
	if err := json.Unmarshal(f.Document, &got); err != nil {
		t.Fatalf("%v; problems: %v", err, namesOfProblems(f))
	}
	want := map[string]any{"customer": map[string]any{"name": "Ada", "email": "ada@example.com", "likes": []any{"tea"}}, "delivery": "2026-12-01", "express": false,
		"items": []any{map[string]any{"sku": "A-1", "quantity": 2.0}, map[string]any{"sku": "B-2", "quantity": 1.0}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f = fillIn(t, []byte(orderSchema), request{Data: json.RawMessage(`{"customer": {"name": "Ada"}, "items": [{"sku": "A-1"}, {"sku": "b", "quantity": 0}]}`)})
	if diff := cmp.Diff([]string{"customer.email missing", "items[0].quantity missing", "items[1].quantity out_of_range", "items[1].sku pattern"}, namesOfProblems(f)); diff != "" {
		t.Error(diff)
	}
	a := handle(request{Op: "fill", Data: json.RawMessage(`{"customer": {"name": "Ada", "email": "a@example.com"}}`)}, []byte(orderSchema))
	if a.Error == nil || a.Error.Problem != mismatch { // a list without rows
		t.Errorf("%+v", a)
	}
}

func TestSchemaThatRefersToItself(t *testing.T) {
	a := handle(request{Op: "open"}, []byte(`{"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}`))
	if a.Error == nil || a.Error.Problem != tooLarge {
		t.Errorf("%+v", a)
	}
}

// A value is used only where its name says so.
func TestMatchDoesNotGuess(t *testing.T) {
	field := func(name, label string) *Field { return &Field{Name: name, Label: label, Type: text} }
	fields := []*Field{field("form1[0].#subform[0].Name[0]", "Full name"), field("employer", "Name of employer"), field("city_birth", "City of birth"), field("t1", "Telephone (daytime)")}
	taken := map[*Field]*leaf{}
	match(fields, flatten(map[string]any{"name": "Ada", "city": "Paris", "home": map[string]any{"phone": "1"}, "work": map[string]any{"phone": "2"}}), taken)
	got := map[string]string{}
	for f, l := range taken {
		got[f.Label] = l.path
	}
	if diff := cmp.Diff(map[string]string{"Full name": "name"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
