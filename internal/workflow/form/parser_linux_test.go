package form

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/confine"
	"github.com/sandpiper-mcp/sandpiper/internal/workflow/form/formtest"
)

func process(t *testing.T, p *Parser, r request, doc []byte) answer {
	t.Helper()
	req, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Process(t.Context(), req, doc)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestProcessFillsInAConfinedProcess(t *testing.T) {
	for _, doc := range [][]byte{formtest.Application(), []byte(formtest.HTMLApplication)} {
		if a := process(t, New(Config{}), request{Op: "open"}, doc); a.Form == nil || len(a.Form.Fields) < 10 {
			t.Errorf("%+v", a)
		}
	}
	a := process(t, New(Config{}), request{Op: "fill", Data: json.RawMessage(applicant)}, formtest.Application())
	if a.Filled == nil || !bytes.HasPrefix(a.Filled.Document, []byte("%PDF-")) {
		t.Errorf("%+v", a.Error)
	}
}

// The confined process answers each request about each kind of form as this process does.
func TestProcessAnswersAsThisProcess(t *testing.T) {
	documents := map[string][]byte{"pdf": formtest.Application(), "html": []byte(formtest.HTMLApplication), "schema": []byte(orderSchema)}
	for _, draft := range []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema", "https://elsewhere.example/schema", "local.json"} {
		documents["schema of "+draft] = []byte(strings.Replace(orderSchema, "{", `{"$schema": "`+draft+`", `, 1))
	}
	for _, id := range []string{"order.json", "https://example.com/order.json", "/order.json", "file:///order.json", "urn:order"} {
		documents["schema named "+id] = []byte(strings.Replace(orderSchema, "{", `{"$id": "`+id+`", `, 1))
	}
	for _, ref := range []string{"other.json", "../other.json#/a", "https://example.com/other.json", "file:///etc/passwd"} {
		documents["schema that refers to "+ref] = []byte(strings.Replace(orderSchema, `"title": "Order"`, `"allOf": [{"$ref": "`+ref+`"}]`, 1))
	}
	for _, format := range []string{"date", "date-time", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri", "iri", "uri-reference", "uri-template", "uuid", "regex", "json-pointer", "period", "semver"} {
		documents["format "+format] = []byte(`{"properties": {"name": {"type": "string", "format": "` + format + `"}}}`)
	}
	p := New(Config{})
	for name, doc := range documents {
		t.Run(name, func(t *testing.T) {
			for _, r := range []request{
				{Op: "open"},
				{Op: "fill", Data: json.RawMessage(applicant)},
				{Op: "fill", Data: json.RawMessage(`{"name": "2026-12-01", "customer": {"name": "Ada", "email": "ada@example.com"}, "items": [{"sku": "A-1", "quantity": 2}], "delivery": "2026-12-01"}`), Profile: json.RawMessage(`{"express": true}`)},
				{Op: "fill", Data: json.RawMessage(`{"customer": 1, "name": "x"}`), Answers: json.RawMessage(`{"name": "y"}`), IgnoreScripts: true},
			} {
				got, want := process(t, p, r, doc), handle(r, doc)
				text, _ := json.Marshal(want)
				want = answer{}
				if err := json.Unmarshal(text, &want); err != nil {
					t.Fatal(err)
				}
				if name == "pdf" && got.Filled != nil && want.Filled != nil && len(got.Filled.Document) > 0 { // the order of its objects varies
					got.Filled.Document, want.Filled.Document = nil, nil
				}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(Field{})); diff != "" {
					t.Errorf("%s: (-this process +the confined one):\n%s", r.Op, diff)
				}
			}
			if name == "schema" {
				a := process(t, p, request{Op: "fill", Data: json.RawMessage(`{"customer": {"name": "Ada", "email": "ada@example.com"}, "items": [{"sku": "A-1", "quantity": 2}]}`)}, doc)
				if a.Filled == nil || !strings.Contains(string(a.Filled.Document), `"sku": "A-1"`) {
					t.Errorf("not filled: %+v", a)
				}
			}
		})
	}
}

// flateBomb is a stream that decodes to size zeros, deflated as often as layers says.
func flateBomb(size, layers int) []byte {
	b := make([]byte, size)
	for range layers {
		var z bytes.Buffer
		w, _ := zlib.NewWriterLevel(&z, zlib.BestCompression)
		_, _ = w.Write(b)
		_ = w.Close()
		b = z.Bytes()
	}
	return b
}

// hostile are documents that loop, allocate, or refer to themselves.
func hostile() map[string][]byte {
	bomb := flateBomb(100<<20, 1)
	chain := strings.Repeat("[", 200_000)
	return map[string][]byte{
		"a bomb as an object stream": withField(func(b *formtest.Builder) {
			n := b.Add(fmt.Sprintf("<< /Type /ObjStm /N 100 /First 10 /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", len(bomb), bomb))
			b.TextField(1, 1, 9, 9, "x", "", 0, fmt.Sprintf("/V %d 0 R", n))
		}),
		"a bomb as a value": withField(func(b *formtest.Builder) {
			n := b.Add(fmt.Sprintf("<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", len(bomb), bomb))
			b.TextField(1, 1, 9, 9, "x", "", 0, fmt.Sprintf("/V %d 0 R", n))
		}),
		"a bomb in two layers": withField(func(b *formtest.Builder) {
			twice := flateBomb(100<<20, 2)
			n := b.Add(fmt.Sprintf("<< /Filter [/FlateDecode /FlateDecode] /Length %d >>\nstream\n%s\nendstream", len(twice), twice))
			b.TextField(1, 1, 9, 9, "x", "", 0, fmt.Sprintf("/V %d 0 R", n))
		}),
		"a field that is its own child": withField(func(b *formtest.Builder) {
			n := b.Add("")
			b.Replace(n, fmt.Sprintf("<< /T (a) /Kids [%d 0 R %d 0 R] >>", n, n))
			b.AddField(n)
		}),
		"pages in a circle":         []byte(strings.Replace(string(withField(func(*formtest.Builder) {})), "/Type /Page /Parent", "/Kids [2 0 R] /Parent", 1)),
		"a reference to itself":     withField(func(b *formtest.Builder) { n := b.Add(""); b.Replace(n, fmt.Sprintf("%d 0 R", n)); b.AddField(n) }),
		"deep arrays":               withField(func(b *formtest.Builder) { b.AddField(b.Add(chain)) }),
		"a huge object number":      []byte(strings.Replace(string(withField(func(*formtest.Builder) {})), "xref\n0 ", "xref\n0 99999999", 1)),
		"a huge size":               withField(func(b *formtest.Builder) { b.Trailer = "/Size 2147483647" }),
		"a huge page count":         []byte(strings.Replace(string(withField(func(*formtest.Builder) {})), "/Count 1", "/Count 2147483647", 1)),
		"xref in a circle":          circle(),
		"deep HTML":                 []byte("<form>" + strings.Repeat("<div>", 100_000) + "<input name=a>"),
		"many formatting elements":  []byte("<form><input name=a>" + strings.Repeat("<b><i><a><table>", 30_000)),
		"deep JSON":                 []byte(`{"properties": ` + strings.Repeat(`{"a":{"properties":`, 100_000)),
		"a pattern that backtracks": []byte(`<form><input name="name" pattern="(a+)+(a+)+(a+)+b">`),
	}
}

// circle is a PDF whose cross-reference sections name each other as the one before.
func circle() []byte {
	s := string(withField(func(*formtest.Builder) {}))
	at := strings.Index(s, "xref\n0 ")
	return []byte(strings.Replace(s, "/Root 1 0 R", fmt.Sprintf("/Root 1 0 R /Prev %d", at), 1))
}

// Each hostile document ends in an answer: that it is broken, or, if the hostile part is not
// needed, a form. None takes more than the limits, and the parser works afterwards.
func TestHostileDocuments(t *testing.T) {
	p := New(Config{Limits: confine.Limits{MemoryBytes: 96 << 20, CPU: 2 * time.Second}})
	for name, doc := range hostile() {
		t.Run(name, func(t *testing.T) {
			a := process(t, p, request{Op: "fill", Data: json.RawMessage(`{"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`)}, doc)
			switch {
			case a.Error != nil && a.Error.Message != "":
				t.Logf("%s: %s", a.Error.Problem, a.Error.Message)
			case a.Filled != nil:
				t.Logf("filled: %d bytes, problems %v", len(a.Filled.Document), a.Filled.Problems)
			default:
				t.Errorf("no answer: %+v", a)
			}
		})
	}
	if a := process(t, p, request{Op: "open"}, formtest.Application()); a.Form == nil {
		t.Errorf("the parser no longer works: %+v", a.Error)
	}
}

func TestLargeDocumentIsRefused(t *testing.T) {
	if a := process(t, New(Config{}), request{Op: "open"}, make([]byte, MaxDocument+1)); a.Error == nil || a.Error.Problem != tooLarge {
		t.Errorf("%+v", a)
	}
}

// The parser needs no file: what its libraries would read, such as their configuration, is not
// there either.
func TestParserWritesNoFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	process(t, New(Config{}), request{Op: "open"}, formtest.Application())
	left, err := os.ReadDir(home)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func BenchmarkProcess(b *testing.B) {
	p, doc := New(Config{}), formtest.Application()
	for b.Loop() {
		if _, err := p.Process(b.Context(), []byte(`{"op":"fill","data":`+applicant+`}`), doc); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(formtest.Application())
	f.Add([]byte(formtest.HTMLApplication))
	f.Add([]byte(orderSchema))
	f.Fuzz(func(t *testing.T, doc []byte) {
		a := handle(request{Op: "fill", Data: json.RawMessage(applicant), IgnoreScripts: true}, doc)
		if (a.Error == nil) == (a.Filled == nil) {
			t.Errorf("%+v", a)
		}
	})
}
