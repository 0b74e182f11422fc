package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/form/formtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// badForms are documents that cannot be filled in, by the problem that is reported.
func badForms() map[string][]byte {
	build := func(change func(b *formtest.Builder)) []byte {
		b := formtest.NewBuilder()
		b.TextField(50, 700, 200, 17, "name", "Name", 0, "")
		change(b)
		return b.Bytes()
	}
	whole := formtest.Application()
	return map[string][]byte{
		"no_fields": formtest.NewBuilder().Bytes(),
		"encrypted": build(func(b *formtest.Builder) {
			n := b.Add("<< /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <" + strings.Repeat("28", 32) + "> /U <" + strings.Repeat("29",
				32) + "> >>")
			b.Trailer = fmt.Sprintf("/Encrypt %d 0 R /ID [<0102> <0102>]", n)
		}),
		"broken":  whole[:len(whole)/2],
		"scripts": build(func(b *formtest.Builder) { b.Catalog = "/OpenAction << /S /JavaScript /JS (app.alert\\(1\\)) >>" }),
		"xfa":     build(func(b *formtest.Builder) { b.AcroForm = "/XFA (<xdp/>)" }),
		"signed": build(func(b *formtest.Builder) {
			b.Field(50, 600, 100, 50, "/FT /Sig /T (signature) /V << /Type /Sig /Filter /Adobe.PPKLite >>")
		}),
	}
}

// TestFormsThatCannotBeFilledIn checks that each problem is reported by name, all of them at once,
// and leaves neither a file nor a change. Nobody can be asked.
func TestFormsThatCannotBeFilledIn(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	files := map[string]string{"permit.pdf": string(formtest.Application()), "permit.html": formtest.HTMLApplication}
	for problem, doc := range badForms() {
		files[problem+".pdf"] = string(doc)
	}
	s := newFormSession(t, "2025-11-25", `{}`, files)
	fill := func(file string, data any) (problems []string, message string) {
		t.Helper()
		const code = `
try:
    forms.open(file).fill(data, ask=False).save("out.pdf")
except forms.Error as e:
    result = {"message": str(e), "problems": sorted(p.get("field", "") + " " + p["problem"] for p in e.problems)}`
		var r struct {
			Result struct {
				Message  string
				Problems []string
			}
		}
		if err := json.Unmarshal([]byte(s.call("execute_code",
			map[string]any{"code": code, "context_vars": map[string]any{"file": file, "data": data}})), &r); err != nil {
			t.Fatal(err)
		}
		return r.Result.Problems, r.Result.Message
	}
	for problem := range badForms() {
		if got, message := fill(problem+".pdf", map[string]any{"name": "x"}); !slices.Equal(got, []string{" " + problem}) ||
			!strings.HasPrefix(message, problem+".pdf: ") {
			t.Errorf("%s.pdf: %q: %s", problem, got, message)
		}
		if text := s.call("fill_form", map[string]any{"file": problem + ".pdf", "data": map[string]any{"name": "x"},
			"save_as": "out.pdf"}); !strings.Contains(text, `"error_type":"FormError"`) || !strings.Contains(text, problem+".pdf: ") {
			t.Errorf("fill_form of %s.pdf: %s", problem, text)
		}
	}
	for file, want := range map[string][]string{
		"permit.pdf": {"addr_street missing", "addr_town missing", "addr_zip too_long", "consent wrong_type", "contact_mail missing",
			"dob wrong_type", "given_names missing",
			"nationality not_an_option", "passport_no too_long", "reasons missing", "sex missing", "signed_on missing",
			"surname wrong_type"},
		"permit.html": {"consent wrong_type", "contact missing", "dob wrong_type", "given_names missing", "nationality not_an_option",
			"reasons missing", "sex missing",
			"surname wrong_type", "zip pattern"},
	} {
		got, message := fill(file, map[string]any{"surname": []string{"a", "b"}, "dob": "soon", "passport_no": "AB12345678",
			"nationality": "Atlantis", "zip": "123456789012", "consent": "perhaps"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		for _, name := range want {
			name, problem, _ := strings.Cut(name, " ")
			if !strings.Contains(message, "["+name+": "+problem+"]") {
				t.Errorf("%s: the message lacks %s: %s", file, name, message)
			}
		}
	}
	if text := s.call("list_workspace_files", map[string]any{}); strings.Contains(text, "out.pdf") {
		t.Errorf("a file was left: %s", text)
	}
	for name, content := range files {
		if s.file(name) != content {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestTwoThousandFieldsAreFilledIn fills in a form with 2,000 fields, and reports a problem in the last.
func TestTwoThousandFieldsAreFilledIn(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	b := formtest.NewBuilder()
	for i := range 2000 {
		if i > 0 && i%200 == 0 {
			b.Page()
		}
		b.TextField(float64(20+i%4*140), float64(800-i%200/4*15), 130, 12, fmt.Sprintf("field_%04d_x", i), "", 0, "/MaxLen 10")
	}
	s := newFormSession(t, "2025-11-25", `{}`, map[string]string{"many.pdf": string(b.Bytes())})
	const code = `
f = forms.open("many.pdf")
data = {field["name"]: f"v{i}" for i, field in enumerate(f.fields)}
try:
    f.fill({**data, "field_1999_x": "x" * 11})
except forms.Error as e:
    problems = [(p["field"], p["problem"]) for p in e.problems]
f.fill(data).save("filled.pdf")
again = forms.open("filled.pdf")
result = [len(f.fields), f.pages, problems, sum(field.get("value") == data[field["name"]] for field in again.fields)]`
	if text := s.call("execute_code", map[string]any{"code": code, "timeout_seconds": 120}); !strings.Contains(text,
		`"result":[2000,10,[["field_1999_x","too_long"]],2000]`) {
		t.Errorf("%.500s", text)
	}
}
