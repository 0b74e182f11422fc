package main

import (
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/form/formtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// letter is a file of the workspace with the data for a form.
const letter = `Dear Sir or Madam,

please find below what you asked for.

First name: Zoë
Last name: Kowalczyk-Łęcki
Date of birth: 1990-04-05
Place of birth: Kraków
Passport: AB1234567
Nationality: Poland
Street: 12 Rue de l'Église
Postcode: 75001
City: Paris
E-mail: zoe.kowalczyk@example.com
Phone: +33 1 23 45 67 89
`

// family is another file of the workspace.
const family = "child,date of birth\nAda,2015-06-07\nMax,2018-01-02\n"

// extractFamily is the code of a model that extracts rows.
const extractFamily = `
import csv
result["children"] = [{"name": r["child"], "born": r["date of birth"]} for r in csv.DictReader(read_file("family.csv").splitlines())]`

// extractLetter is what a model writes to extract the data.
const extractLetter = `import re
result = {k.lower().replace(" ", "_").replace("-", "_"): v for k, v in re.findall(r"(?m)^([A-Z][\w -]*): (.+)$", read_file("letter.txt"))}`

// privateValues are those of the letter that detection finds, in any form.
var privateValues = []string{"Kowalczyk", "kowalczyk", "zoe.", "+33", "23 45 67", "l'Église"}

// formSession is a client that fills in a form, with the files of a workspace.
type formSession struct {
	*formClient
	home string
}

func newFormSession(t *testing.T, version, capabilities string, files map[string]string) formSession {
	t.Helper()
	needSandbox(t)
	home := t.TempDir()
	for name, content := range files {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := sandpiper(home, "files", "put", path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return formSession{connect(t, home, "pii: {addresses: all}\n", version, capabilities, "--profile", "full"), home}
}

// call calls a tool without questions and returns its text.
func (s formSession) call(tool string, args any) string {
	s.t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		s.t.Fatal(err)
	}
	s.sendCall(tool, string(b), "")
	return s.text(s.nextMessage())
}

func (s formSession) text(m clientMessage) string {
	s.t.Helper()
	if len(m.Result.Content) != 1 {
		s.t.Fatalf("%+v", m)
	}
	return m.Result.Content[0].Text
}

// extracted returns the data of the letter and the family as the model sees it.
func (s formSession) extracted() map[string]any {
	s.t.Helper()
	var r struct{ Result map[string]any }
	if err := json.Unmarshal([]byte(s.call("execute_code", map[string]any{"code": extractLetter + extractFamily})), &r); err != nil ||
		len(r.Result) != 12 {
		s.t.Fatalf("%v: %v", err, r)
	}
	return r.Result
}

// file returns a file of the workspace.
func (s formSession) file(name string) string {
	s.t.Helper()
	out, err := sandpiper(s.home, "files", "cat", name).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

// noValues checks that the client received none of the private values.
func (s formSession) noValues() {
	s.t.Helper()
	for _, v := range privateValues {
		if strings.Contains(s.heard.String(), v) {
			s.t.Errorf("the client received %q", v)
		}
	}
}

// TestFillGovernmentForm fills in the form of an authority from a file of the workspace: the
// model passes on tokens, the person answers the rest, and the PDF has the values.
func TestFillGovernmentForm(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	s := newFormSession(t, "2025-11-25", `{"elicitation":{}}`,
		map[string]string{"permit.pdf": string(formtest.Application()), "letter.txt": letter, "family.csv": family})
	if text := s.call("inspect_form", map[string]any{"file": "permit.pdf"}); !strings.Contains(text,
		`{"name":"sex","label":"Sex","type":"choice","page":1,"required":true,"options":[{"value":"Female"},{"value":"Male"},{"value":"Other"}]}`) {
		t.Errorf("inspect_form: %s", text)
	}
	data := s.extracted()
	data["purposes"] = []string{"Work", "Research"}
	args, err := json.Marshal(map[string]any{"file": "permit.pdf", "data": data, "save_as": "forms/filled.pdf"})
	if err != nil {
		t.Fatal(err)
	}
	s.sendCall("fill_form", string(args), "")
	asked := s.nextMessage()
	if got := fmt.Sprint(asked.Params.Schema.Required); got != "[sex reasons consent signed_on]" || !strings.Contains(asked.Params.Message,
		"permit.pdf") {
		t.Errorf("asked for %s: %s", got, asked.Params.Message)
	}
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"sex":"Female","reasons":"A position at the `+
		`observatory.\nMy family lives here.","consent":true,"signed_on":"tomorrow"}}}`, asked.ID))
	again := s.nextMessage() // the date is not one
	if got := fmt.Sprint(again.Params.Schema.Required); got != "[signed_on]" || !strings.Contains(again.Params.Message,
		"a date is needed") {
		t.Errorf("asked again for %s: %s", got, again.Params.Message)
	}
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"signed_on":"2026-11-24"}}}`, again.ID))
	answer := s.text(s.nextMessage())
	for _, part := range []string{`"success":true`, `| Surname (as in your passport): | [`, `| Sex: | Female | answer |`,
		`| Purposes: | Work<br>Research | data |`, `bytes to forms/filled.pdf`} {
		if !strings.Contains(strings.ReplaceAll(answer, `\u003c`, "<"), part) {
			t.Errorf("no %q in %s", part, answer)
		}
	}
	if text := s.call("inspect_form", map[string]any{"file": "forms/filled.pdf"}); !strings.Contains(text,
		`"label":"E-mail address","type":"text","page":1,"required":true,"value":"[EMAIL_`) {
		t.Errorf("inspect_form of the filled form: %s", text)
	}
	s.noValues()
	if s.file("permit.pdf") != string(formtest.Application()) {
		t.Error("the form itself has changed")
	}
	checkRendered(t, s.file("forms/filled.pdf"))
}

// filledText is the text of the filled form, as pdftotext reads it line by line.
const filledText = `Kowalczyk-Łęcki Zoë
05.04.1990 Kraków A B 1 2 3 4 5 6 7
Female Male Other Poland
12 Rue de l'Église 75001 Paris
zoe.kowalczyk@example.com +33 1 23 45 67 89
Work A position at the observatory.
Research
My family lives here.
Ada 07.06.2015
Max 02.01.2018
2026-11-24`

// checkRendered renders a filled form with Poppler, and checks its text and its buttons.
func checkRendered(t *testing.T, doc string) {
	t.Helper()
	for _, program := range []string{"pdftotext", "pdftoppm"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("REQUIRE_POPPLER") != "" {
			t.Fatal(err)
		} else if err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "filled.pdf")
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("pdftotext", "-layout", path, "-").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	have := "\n" + strings.Join(lines, "\n") + "\n"
	for line := range strings.SplitSeq(filledText, "\n") {
		if !strings.Contains(have, "\n"+line+"\n") {
			t.Errorf("the filled form lacks the line %q:\n%s", line, text)
		}
	}
	if out, err := exec.Command("pdftoppm", "-r", "72", "-png", path, filepath.Join(dir, "page")).
		CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if keep := os.Getenv("FORM_TEST_OUTPUT"); keep != "" {
		_ = os.CopyFS(keep, os.DirFS(dir))
	}
	first, second := page(t, filepath.Join(dir, "page-1.png")), page(t, filepath.Join(dir, "page-2.png"))
	for name, box := range map[string]struct {
		of       image.Image
		at       image.Point
		selected bool
	}{"Female": {first, image.Pt(50, 622), true}, "Male": {first, image.Pt(125, 622), false},
		"consent": {second, image.Pt(50, 605), true}} {
		if n := ink(box.of, box.at); (n > 8) != box.selected {
			t.Errorf("%s has %d dark points", name, n)
		}
	}
}

func page(t *testing.T, path string) image.Image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestFillHTMLForm does the same with a form of a web site, in the protocol without sessions,
// from code: the model's code has tokens, and the file has the values.
func TestFillHTMLForm(t *testing.T) {
	t.Parallel()
	s := newFormSession(t, "2026-07-28", `{"elicitation":{"form":{}}}`,
		map[string]string{"permit.html": formtest.HTMLApplication, "letter.txt": letter})
	const code = extractLetter + `
save_state("profile", {"gender": "Female", "nationality": "France"})
f = forms.open("permit.html").fill(result)
f.save("filled.html")
result = {"review": f.review(), "values": f.values, "submit": f.action}`
	args, err := json.Marshal(map[string]any{"code": code})
	if err != nil {
		t.Fatal(err)
	}
	s.sendCall("execute_code", string(args), "")
	asked := s.nextMessage()
	if got := fmt.Sprint(asked.Result.Requests["q1"].Params.Schema.Required); got != "[reasons consent]" {
		t.Fatalf("asked for %s in %+v", got, asked)
	}
	s.sendCall("execute_code", string(args), fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q1":{"action":"accept","content":{"reasons":"work","consent":true}}}`, asked.Result.State))
	answer := s.text(s.nextMessage())
	for _, part := range []string{`"success":true`, `| Nationality: | Poland | data |`, `| Sex: | Female | profile |`,
		`| E-mail: | [EMAIL_`, `"action":"https://permits.example/apply"`} {
		if !strings.Contains(answer, part) {
			t.Errorf("no %q in %s", part, answer)
		}
	}
	s.noValues()
	filled := s.file("filled.html")
	for _, part := range []string{`value="Kowalczyk-Łęcki"`, `value="zoe.kowalczyk@example.com"`, `value="f" required="" checked="checked"`,
		`value="PL" selected="selected"`, `>work</textarea>`} {
		if !strings.Contains(filled, part) {
			t.Errorf("the file lacks %s:\n%s", part, filled)
		}
	}
}

// TestFillJSONSchemaForm fills in a JSON Schema, from code and by the tool.
func TestFillJSONSchemaForm(t *testing.T) {
	t.Parallel()
	const order = `{"type": "object", "required": ["customer"], "properties": {"customer": {"$ref": "#/$defs/person"}, "delivery": {"type": "string", "format": "date"}},
		"$defs": {"person": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}`
	s := newFormSession(t, "2025-11-25", `{}`, map[string]string{"order.json": order})
	const code = `forms.open("order.json").fill({"customer": {"name": "Ada"}, "delivery": "2026-12-01"}, ask=False).save("filled.json")`
	if text := s.call("execute_code", map[string]any{"code": code}); !strings.Contains(text, `"success":true`) {
		t.Error(text)
	}
	text := s.call("fill_form", map[string]any{"file": "order.json",
		"data": map[string]any{"customer": map[string]any{"name": "Ada"}, "delivery": "2026-12-01"}, "save_as": "again.json"})
	for _, name := range []string{"filled.json", "again.json"} {
		if filled := s.file(name); !strings.Contains(filled, `"delivery": "2026-12-01"`) {
			t.Errorf("%s is %q; fill_form: %s", name, filled, text)
		}
	}
}

// TestFormWithoutPerson checks that a form with missing values, with nobody to ask, leaves no file.
func TestFormWithoutPerson(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	s := newFormSession(t, "2025-11-25", `{}`, map[string]string{"permit.pdf": string(formtest.Application()),
		"plain.pdf": string(formtest.NewBuilder().Bytes())})
	for code, want := range map[string][]string{
		`forms.open("permit.pdf").fill({"surname": "A"}, ask=False).save("out.pdf")`: {`"success":false`, `"error_type":"FormError"`,
			`[given_names: missing]`, `[consent: missing]`},
		`forms.open("plain.pdf")`:                  {`plain.pdf: the document has no fields`},
		`forms.open("permit.pdf").save("out.pdf")`: {"call fill(data) first"},
		`forms.open("none.pdf")`:                   {"File not found: none.pdf"},
		`forms.open("permit.pdf").images()`:        {"need the package pypdfium2, which is not installed here: ask the operator"},
		`forms.open("../etc/passwd")`:              {"Access denied"},
		`forms.open("permit.pdf").fill([1])`:       {"data must be a dict"},
		"try: forms.open('plain.pdf')\nexcept forms.Error as e: result = e.problems[0]['problem']": {`"result":"no_fields"`},
	} {
		for _, part := range want {
			if text := s.call("execute_code", map[string]any{"code": code}); !strings.Contains(text, part) {
				t.Errorf("%s: no %q in %s", code, part, text)
			}
		}
	}
	if text := s.call("fill_form", map[string]any{"file": "permit.pdf", "data": map[string]any{"surname": strings.Repeat("x", 999)},
		"save_as": "out.pdf"}); !strings.Contains(text, "[surname: too_long]") || strings.Contains(text, "<code>") {
		t.Errorf("fill_form: %s", text)
	}
	var waits struct {
		Type string `json:"error_type"`
		ID   string `json:"execution_id"`
	}
	text := s.call("fill_form", map[string]any{"file": "permit.pdf", "data": map[string]any{"surname": "A"}, "save_as": "out.pdf"})
	if err := json.Unmarshal([]byte(text), &waits); err != nil || waits.Type != "approval_required" {
		t.Fatalf("%v: %s", err, text)
	}
	if text := s.call("resume_execution", map[string]any{"execution_id": waits.ID,
		"answer": map[string]string{"action": "decline"}}); !strings.Contains(text, "[given_names: missing]") {
		t.Errorf("declined: %s", text)
	}
	if text := s.call("list_workspace_files", map[string]any{}); strings.Contains(text, "out.pdf") {
		t.Errorf("a file was left: %s", text)
	}
}
