package form

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/form/formtest"
)

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
			n := b.Add(fmt.Sprintf("<< /Type /ObjStm /N 100 /First 10 /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", len(bomb),
				bomb))
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
		"pages in a circle": []byte(strings.Replace(string(withField(func(*formtest.Builder) {})), "/Type /Page /Parent",
			"/Kids [2 0 R] /Parent", 1)),
		"a reference to itself": withField(func(b *formtest.Builder) {
			n := b.Add("")
			b.Replace(n,
				fmt.Sprintf("%d 0 R", n))
			b.AddField(n)
		}),
		"deep arrays": withField(func(b *formtest.Builder) { b.AddField(b.Add(chain)) }),
		"a huge object number": []byte(strings.Replace(string(withField(func(*formtest.Builder) {})), "xref\n0 ", "xref\n0 99999999",
			1)),
		"a huge size": withField(func(b *formtest.Builder) { b.Trailer = "/Size 2147483647" }),
		"a huge page count": []byte(strings.Replace(string(withField(func(*formtest.Builder) {})), "/Count 1", "/Count 2147483647",
			1)),
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
// needed, a form. None takes more than the limits, and the interpreter works afterwards.
func TestHostileDocuments(t *testing.T) {
	for name, doc := range hostile() {
		t.Run(name, func(t *testing.T) {
			if name == "a pattern that backtracks" { // until the limit of 10 seconds
				longtest.SkipSlow(t)
			}
			a := handle(t, request{Op: "fill", Data: json.RawMessage(`{"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`)}, doc)
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
	if a := handle(t, request{Op: "open"}, formtest.Application()); a.Form == nil {
		t.Errorf("the interpreter no longer works: %+v", a.Error)
	}
}

func BenchmarkFill(b *testing.B) {
	doc := formtest.Application()
	for b.Loop() {
		handle(b, request{Op: "fill", Data: json.RawMessage(applicant)}, doc)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(formtest.Application())
	f.Add([]byte(formtest.HTMLApplication))
	f.Add([]byte(orderSchema))
	f.Fuzz(func(t *testing.T, doc []byte) {
		a := handle(t, request{Op: "fill", Data: json.RawMessage(applicant), IgnoreScripts: true}, doc)
		if (a.Error == nil) == (a.Filled == nil) {
			t.Errorf("%+v", a)
		}
	})
}
