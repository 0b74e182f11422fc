package form

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/form/formtest"
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
	a := handle(t, r, doc)
	if a.Error != nil {
		t.Fatalf("error: %+v", *a.Error)
	}
	return a.Filled
}

func TestFillPDF(t *testing.T) {
	f := fillIn(t, formtest.Application(), request{Data: json.RawMessage(applicant)})
	want := map[string]any{
		"surname": "Kowalczyk-Łęcki", "given_names": "Zoë", "dob": "05.04.1990", "pob": "Kraków", "passport_no": "AB1234567",
		"sex": "Female", "nationality": "PL",
		"addr_street": "12 Rue de l'Église", "addr_zip": "75001", "addr_town": "Paris", "contact_mail": "zoe@example.com",
		"contact_tel": "+33 1 23 45 67 89",
		"purposes":    []any{"Work", "Research"}, "reasons": "I have been offered a position at the observatory.\nMy family lives in " +
			"Arcadia already, and I speak the language.",
		"child_1_name": "Ada", "child_1_born": "07.06.2015", "child_2_name": "Max", "child_2_born": "02.01.2018", "consent": true,
		"signed_on": "2026-11-24",
	}
	if diff := cmp.Diff(want, f.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shoe_size"}, f.Unused); diff != "" || len(f.Problems)+len(f.Missing) > 0 {
		t.Errorf("unused: %s\nproblems: %v, missing: %v", diff, f.Problems, f.Missing)
	}
	again := handle(t, request{Op: "open"}, f.Document)
	got := map[string]any{}
	for _, field := range again.Form.Fields {
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
		all = append(all, q.Name+" missing")
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
		"addr_street wrong_type", "addr_town missing", "addr_zip too_long", "child too_many_rows", "consent wrong_type",
		"contact_mail wrong_type", "dob wrong_type",
		"given_names wrong_type", "nationality not_an_option", "passport_no too_long", "purposes not_an_option", "reasons too_long",
		"sex not_an_option", "signed_on missing", "surname characters",
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
	f := fillIn(t, doc, request{Data: json.RawMessage(`{"surname": "Data"}`), Profile: profile,
		Answers: json.RawMessage(`{"given_names": "Answer"}`)})
	got := map[string]any{}
	for _, name := range []string{"surname", "given_names", "contact_mail", "nationality"} {
		got[name] = f.Values[name]
	}
	if diff := cmp.Diff(map[string]any{"surname": "Data", "given_names": "Answer", "contact_mail": "profile@example.com",
		"nationality": "TR"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(f.Review, "| Given names: | Answer | answer |\n") || !strings.Contains(f.Review,
		"| Nationality: | Turkey | profile |\n") || !strings.Contains(f.Review, "| Town: | (missing) |  |\n") {
		t.Errorf("review:\n%s", f.Review)
	}
	if i := slices.IndexFunc(f.Missing, func(q question) bool { return q.Name == "sex" }); i < 0 {
		t.Error("sex is not missing")
	} else if diff := cmp.Diff(map[string]any{"type": "string", "title": "Sex", "enum": []any{"Female", "Male", "Other"}},
		f.Missing[i].Schema); diff != "" {
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
		"a PDF without fields": {formtest.NewBuilder().Bytes(), "no_fields"},
		"a PDF without a form": {[]byte(strings.Replace(string(plain), "/AcroForm 3 0 R", "/AcroFork 3 0 R", 1)), "no_fields"},
		"an encrypted PDF": {withField(func(b *formtest.Builder) {
			n := b.Add("<< /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <" + strings.Repeat("28", 32) + "> /U <" + strings.Repeat("29",
				32) + "> >>")
			b.Trailer = fmt.Sprintf("/Encrypt %d 0 R /ID [<0102> <0102>]", n)
		}), "encrypted"},
		"a PDF that ends early": {plain[:len(plain)/3], "broken"},
		"nothing but a header":  {[]byte("%PDF-1.7\n"), "broken"},
		"a PDF with XFA":        {withField(func(b *formtest.Builder) { b.AcroForm = "/XFA (<xdp/>)" }), "xfa"},
		"a PDF with an XFA stream": {withField(func(b *formtest.Builder) {
			b.AcroForm = fmt.Sprintf("/XFA [(template) %d 0 R]", b.Stream("", []byte("<xdp/>")))
		}), "xfa"},
		"a script of a field": {withField(func(b *formtest.Builder) {
			b.TextField(50, 600, 100, 17, "sum", "Sum", 0, "/AA << /C << /S /JavaScript /JS (event.value = 1) >> >>")
		}), "scripts"},
		"a script of the document": {withField(func(b *formtest.Builder) {
			b.Catalog = "/OpenAction << /S /JavaScript /JS " +
				"(app.alert(1)) >>"
		}), "scripts"},
		"a named script": {withField(func(b *formtest.Builder) {
			b.Catalog = "/Names << /JavaScript << /Names [(a) << /S /JavaScript /JS (1) >>] >> >>"
		}), "scripts"},
		"a hidden script": {withField(func(b *formtest.Builder) {
			b.Catalog = "/OpenAction << /S /GoTo /D [5 0 R /Fit] /Next << /S /JavaScript /JS (1) >> >>"
		}), "scripts"},
		"a signed PDF": {withField(func(b *formtest.Builder) {
			b.Field(50, 600, 100, 50, "/FT /Sig /T (signature) /V << /Type /Sig /Filter /Adobe.PPKLite >>")
		}), "signed"},
		"too many fields":        {withField(func(b *formtest.Builder) { many(b, 5000) }), "too_many_fields"},
		"plain text":             {[]byte("hello"), "unknown_kind"},
		"nothing":                {nil, "unknown_kind"},
		"JSON that is no schema": {[]byte(`{"a": 1}`), "unknown_kind"},
		"broken JSON":            {[]byte(`{"properties": {`), "broken"},
		"HTML without fields":    {[]byte(`<p>hello</p>`), "no_fields"},
	} {
		t.Run(name, func(t *testing.T) {
			a := handle(t, request{Op: "fill", Data: json.RawMessage(`{"name": "x"}`)}, test.doc)
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

func TestDatesAreWrittenInTheFormatOfTheField(t *testing.T) {
	for format, want := range map[string]string{"dd/mm/yyyy": "05/04/1990", "d.m.yy": "5.4.90", "yyyy-mm-dd": "1990-04-05"} {
		doc := withField(func(b *formtest.Builder) {
			b.TextField(50, 600, 100, 17, "day", "Day", 0, `/AA << /K << /S /JavaScript /JS (AFDate_KeystrokeEx\("`+format+`"\)) >> >>`)
		})
		for _, value := range []string{"1990-04-05", "1990-04-05T10:00:00Z", " " + want} {
			if f := fillIn(t, doc, request{Data: json.RawMessage(`{"day": "` + value + `"}`)}); f.Values["day"] != want {
				t.Errorf("%s in %s is %v, problems %v", value, format, f.Values["day"], f.Problems)
			}
		}
		for _, value := range []string{"1990-02-30", "5 April 1990", "1990"} {
			if f := fillIn(t, doc, request{Data: json.RawMessage(`{"day": "` + value + `"}`)}); len(f.Problems) != 1 {
				t.Errorf("%s in %s is %v", value, format, f.Values["day"])
			}
		}
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
	want := map[string]any{"surname": "O'Neil <b>", "given_names": "Zoë", "dob": "1990-04-05", "sex": "m", "nationality": "PL",
		"contact": "zoe@example.com", "zip": "75001",
		"reasons": "one\ntwo", "child[1]": "Ada", "born[1]": "2015-06-07", "child[2]": "Max", "born[2]": "2018-01-02", "consent": true}
	if diff := cmp.Diff(want, f.Values); diff != "" || len(f.Problems)+len(f.Missing) > 0 {
		t.Fatalf("(-want +got):\n%s\nproblems: %v, missing: %v", diff, f.Problems, f.Missing)
	}
	for _, part := range []string{`value="O&#39;Neil &lt;b&gt;"`, `value="m" checked="checked"`, `<option value="PL" selected="selected">`,
		"one\ntwo</textarea>", `name="consent" value="1" required="" checked="checked"`, `value="t0ken"`, `name="child[]" value="Max"`} {
		if !strings.Contains(string(f.Document), part) {
			t.Errorf("the document lacks %s:\n%s", part, f.Document)
		}
	}
	again := handle(t, request{Op: "open"}, f.Document)
	for _, field := range again.Form.Fields {
		if diff := cmp.Diff(want[field.Name], field.Value); diff != "" {
			t.Errorf("%s read again: %s", field.Name, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"action": "https://permits.example/apply", "method": "POST"}, again.Form.Submit); diff != "" {
		t.Error(diff)
	}
}

func TestHTMLConsentIsRequired(t *testing.T) {
	f := fillIn(t, []byte(`<form><input type=checkbox name=consent required><input type=number name=age min=18><input name=zip `+
		`pattern="[0-9]+"></form>`),
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
	f := fillIn(t, []byte(orderSchema), request{Data: json.RawMessage(`{"customer": {"name": "Ada", "e_mail": "ada@example.com", ` +
		`"likes": ["tea"]}, "items": [{"sku": "A-1", "quantity": "2"}, {"sku": "B-2", "quantity": 1}], "delivery": "2026-12-01"}`)})
	var got any
	if err := json.Unmarshal(f.Document, &got); err != nil {
		t.Fatalf("%v; problems: %v", err, namesOfProblems(f))
	}
	want := map[string]any{"customer": map[string]any{"name": "Ada", "email": "ada@example.com", "likes": []any{"tea"}},
		"delivery": "2026-12-01", "express": false,
		"items": []any{map[string]any{"sku": "A-1", "quantity": 2.0}, map[string]any{"sku": "B-2", "quantity": 1.0}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f = fillIn(t, []byte(orderSchema), request{Data: json.RawMessage(`{"customer": {"name": "Ada"}, "items": [{"sku": "A-1"}, {"sku": ` +
		`"b", "quantity": 0}]}`)})
	if diff := cmp.Diff([]string{"customer.email missing", "items[0].quantity missing", "items[1].quantity out_of_range",
		"items[1].sku pattern"}, namesOfProblems(f)); diff != "" {
		t.Error(diff)
	}
	a := handle(t, request{Op: "fill", Data: json.RawMessage(`{"customer": {"name": "Ada", "email": "a@example.com"}}`)},
		[]byte(orderSchema))
	if a.Error == nil || a.Error.Problem != "pattern" { // a list without rows
		t.Errorf("%+v", a)
	}
}

func TestSchemaThatRefersToItself(t *testing.T) {
	a := handle(t, request{Op: "open"}, []byte(`{"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}`))
	if a.Error == nil || a.Error.Problem != "too_large" {
		t.Errorf("%+v", a)
	}
}

// A value is used only where its name says so.
func TestMatchDoesNotGuess(t *testing.T) {
	const doc = `<form><label>Full name<input name="form1[0].#subform[0].Name[0]"></label><label>Name of employer<input name=employer></label>
		<label>City of birth<input name=city_birth></label><label>Telephone (daytime)<input name=t1></label></form>`
	f := fillIn(t, []byte(doc), request{Data: json.RawMessage(`{"name": "Ada", "city": "Paris", "home": {"phone": "1"}, "work": ` +
		`{"phone": "2"}}`)})
	if diff := cmp.Diff(map[string]any{"form1[0].#subform[0].Name[0]": "Ada"}, f.Values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A document is checked against the whole schema in its draft, wherever the schema says that it is.
func TestSchemasOfEachKind(t *testing.T) {
	const good = `{"customer": {"name": "Ada", "email": "ada@example.com"}, "items": [{"sku": "A-1", "quantity": 2}]}`
	const short = `{"customer": {"name": "Ada", "email": "ada@example.com"}}`
	with := func(old, with string) string { return strings.Replace(orderSchema, old, with, 1) }
	for _, start := range []string{
		`{`, `{"$schema": "http://json-schema.org/draft-04/schema#",`, `{"$schema": "http://json-schema.org/draft-06/schema#",`,
		`{"$schema": "http://json-schema.org/draft-07/schema#",`,
		`{"$schema": "https://json-schema.org/draft/2019-09/schema",`, `{"$schema": "https://json-schema.org/draft/2020-12/schema",`,
		`{"$id": "order.json",`, `{"$id": "https://example.com/order.json",`, `{"$id": "/order.json",`, `{"$id": "file:///order.json",`,
		`{"$id": "urn:order",`,
	} {
		doc := []byte(with("{", start))
		if f := fillIn(t, doc, request{Data: json.RawMessage(good)}); !strings.Contains(string(f.Document), `"sku": "A-1"`) {
			t.Errorf("%s: not filled: %+v", start, f)
		}
		if a := handle(t, request{Op: "fill", Data: json.RawMessage(short)}, doc); a.Error == nil || !strings.HasSuffix(a.Error.Message,
			"in: / (required)") {
			t.Errorf("%s: without a required list: %+v", start, a)
		}
	}
	for _, doc := range []string{
		with("{", `{"$schema": "https://elsewhere.example/schema",`), with("{", `{"$schema": "local.json",`),
		with(`"title": "Order"`, `"allOf": [{"$ref": "other.json"}]`), with(`"title": "Order"`, `"allOf": [{"$ref": "../other.json#/a"}]`),
		with(`"title": "Order"`, `"allOf": [{"$ref": "https://example.com/other.json"}]`), with(`"title": "Order"`,
			`"allOf": [{"$ref": "file:///etc/passwd"}]`),
	} {
		if a := handle(t, request{Op: "fill", Data: json.RawMessage(good)}, []byte(doc)); a.Error == nil || a.Error.Problem != "broken" ||
			!strings.Contains(a.Error.Message, "is not valid") {
			t.Errorf("%.60s: %+v", doc, a)
		}
	}
	for format, conforms := range map[string]bool{
		"date": true, "idn-email": true, "hostname": true, "idn-hostname": true, "uri-reference": true, "uri-template": true, "regex": true,
		"date-time": false, "time": false, "duration": false, "ipv4": false, "ipv6": false, "uri": false, "iri": false, "uuid": false,
		"json-pointer": false, "period": false, "semver": false,
	} {
		value := "2026-12-01"
		if format == "idn-email" {
			value = "ä@example.com"
		}
		a := handle(t, request{Op: "fill", Data: json.RawMessage(`{"name": "` + value + `"}`)},
			[]byte(`{"properties": {"name": {"type": "string", "format": "`+format+`"}}}`))
		if conforms && (a.Filled == nil || a.Filled.Document == nil) ||
			!conforms && (a.Error == nil || !strings.HasSuffix(a.Error.Message, "in: /name (format)")) {
			t.Errorf("format %s: %+v", format, a)
		}
	}
}

// odd is a PDF with fields of rare kinds.
func odd() []byte {
	b := formtest.NewBuilder()
	widget := func(y float64, dict string) int {
		n := b.Add(fmt.Sprintf("<< /Type /Annot /Subtype /Widget /Rect [50 %g 150 %g] /F 4 %s >>", y, y+17, dict))
		b.Annotate(n)
		return n
	}
	add := func(y float64, dict string) { b.AddField(widget(y, dict)) }
	add(700, "/FT /Tx /T (read_only) /Ff 1 /V (fixed)")
	add(670, "/FT /Tx /T (rich) /Ff 33554432 /RV (<body>old</body>) /V (old) /Q 1 /BS << /W 3 >>")
	add(640, "/FT /Tx /T (comb) /Ff 16777216 /MaxLen 5")
	add(610, "/FT /Tx /T (upright) /MK << /R 90 /BC [1 0 0] >>")
	add(580, "/FT /Tx /T (large) /Ff 8192 /DA (/Helv 20 Tf 1 0 0 rg)")
	add(550, "/FT /Tx /T (utf) /TU <FEFF01410142> /V <FEFF0141>")
	add(520, "/FT /Ch /T (open) /Ff 393216 /Opt [(a) (b)]")
	add(490, "/FT /Ch /T (list) /Opt [[(1) (One)] [(2) (Two)]] /I [0]")
	add(460, "/FT /Btn /T (bare)")
	b.AddField(b.Add(fmt.Sprintf("<< /T (home) /DA (/Helv 8 Tf 0.5 g) /Kids [%d 0 R %d 0 R] >>",
		widget(430, "/T (street) /FT /Tx /TU (Street)"), widget(400, "/T (city) /FT /Tx /Ff 2"))))
	b.AddField(b.Add(fmt.Sprintf("<< /T (twice) /FT /Tx /Kids [%d 0 R %d 0 R] >>", widget(370, ""), widget(340, ""))))
	add(310, "/FT /Tx /T (same)")
	add(280, "/FT /Tx /T (same)")
	b.Field(50, 250, 0, 0, "/FT /Tx /T (hidden)")
	add(220, "/FT /Sig /T (signature)")
	add(190, "/FT /Tx /Ff 1048576 /T (file)")
	add(160, "/FT /Btn /Ff 65536 /T (push)")
	return b.Bytes()
}

func TestOddFieldsOfPDF(t *testing.T) {
	doc := odd()
	form := handle(t, request{Op: "open"}, doc).Form
	var names []string
	for _, f := range form.Fields {
		names = append(names, f.Name+" "+f.Type)
	}
	want := []string{"read_only text", "rich text", "comb text", "upright text", "large text", "utf text", "open choice", "list choice",
		"bare boolean", "home.street text", "home.city text", "twice text", "same text", "same (2) text", "hidden text"}
	if diff := cmp.Diff(want, names); diff != "" || len(form.Warnings) != 2 || form.Fields[5].Label != "Łł" || form.Fields[5].Value != "Ł" {
		t.Errorf("%s\n%+v", diff, form)
	}
	const data = `{"rich": "Żółw Ğ", "comb": "12345", "upright": "up", "large": "big", "utf": "Ł", "open": "c", "list": "Two", "bare": ` +
		`true, "home": {"street": "S1", "city": "C"}, "twice": "both", "hidden": "%s"}`
	f := fillIn(t, doc, request{Data: json.RawMessage(strings.Replace(data, "%s", strings.Repeat("h", 300), 1))})
	again := map[string]any{}
	for _, f := range handle(t, request{Op: "open"}, f.Document).Form.Fields {
		again[f.Name] = f.Value
	}
	for name, want := range map[string]any{"read_only": "fixed", "rich": "Żółw Ğ", "list": "2", "open": "c", "bare": true, "home.city": "C",
		"same": nil} {
		if again[name] != want {
			t.Errorf("%s is %v after filling, want %v", name, again[name], want)
		}
	}
	if strings.Contains(string(f.Document), "/RV") {
		t.Error("the text with fonts is still there")
	}
	got := strings.Fields(pdftotext(t, f.Document))
	for _, word := range []string{"fixed", "Żółw", "Ğ", "1", "2", "3", "4", "5", "up", "big", "Ł", "c", "Two", "S1", "C", "both"} {
		if !slices.Contains(got, word) {
			t.Errorf("the filled form lacks %q: %q", word, got)
		}
	}
	wrong := fillIn(t, doc, request{Data: json.RawMessage(`{"read_only": "x", "comb": "123456", "upright": "does not fit into its ` +
		`height", "hidden": "日本", "list": "3", "home": {"city": "C"}}`)})
	if diff := cmp.Diff([]string{"comb too_long", "hidden characters", "list not_an_option", "read_only read_only", "upright too_long"},
		namesOfProblems(wrong)); diff != "" {
		t.Error(diff)
	}
}

// pdftotext returns the text of a PDF as Poppler reads it.
func pdftotext(t *testing.T, doc []byte) string {
	t.Helper()
	path, err := exec.LookPath("pdftotext")
	if err != nil && os.Getenv("REQUIRE_POPPLER") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(path, "-layout", "-", "-")
	cmd.Stdin = bytes.NewReader(doc)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(text)
}
