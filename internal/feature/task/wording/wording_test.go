package wording_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
)

func TestFind(t *testing.T) {
	names := map[wording.Kind]string{
		wording.Quoted: "quoted", wording.WebAddress: "address", wording.Email: "email", wording.Date: "date", wording.Clock: "clock",
		wording.Phone: "phone",
		wording.File:  "file", wording.Expression: "expression", wording.Number: "number", wording.Proper: "name",
	}
	for text, want := range map[string][]string{
		`Write "a b" to c/d.txt`:                       {"quoted a b", "file c/d.txt"},
		"Put “Grüße” into ü.md":                        {"quoted Grüße", "file ü.md"},
		"Rename 'x' to 'y', it's done":                 {"quoted x", "quoted y"},
		"Mail ada@example.com at 14:30":                {"email ada@example.com", "clock 14:30"},
		"from 2027-01-10 to March 5th, 2029":           {"date 2027-01-10", "date 2029-03-05"},
		"on 15 March 2029":                             {"date 2029-03-15"},
		"Call +1 555 0100":                             {"phone +1 555 0100"},
		"Work out (12.5 - 4) * 6 / 3":                  {"expression (12.5 - 4) * 6 / 3"},
		"Multiply 250 by -0.07":                        {"number 250", "number -0.07"},
		"The weather in New York and Rio de Janeiro":   {"name New York", "name Rio de Janeiro"},
		"Open https://example.com/a?b=1 in the editor": {"address https://example.com/a?b=1"},
		"Nothing to find here":                         nil,
	} {
		var got []string
		for _, v := range wording.Find(text) {
			got = append(got, names[v.Kind]+" "+v.Text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"Calculate 5 + 3": {"Calculate 5 + 3"},
		"Read a.csv, sum the amount column, write the total to b.txt": {"Read a.csv,", "sum the amount column,",
			"write the total to b.txt"},
		"Add 17 and 25, then multiply the sum by 3":      {"Add 17 and 25, then", "multiply the sum by 3"},
		`Write "read this, and run" to a.txt`:            {`Write "read this, and run" to a.txt`},
		"We are 4 friends. What is the weather in Oslo?": {"We are 4 friends. What is the weather in Oslo?"},
	} {
		var got []string
		for _, c := range wording.Split(text, wording.Find(text)) {
			got = append(got, strings.TrimSpace(c.Text))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// Values lie in the text, in order and without overlap, and queries remain valid text.
func FuzzFind(f *testing.F) {
	for _, text := range []string{`Write "a" to b.txt`, "“”", "'", "“x", "5 + 3 - ", "a@b.c 2027-01-10", "Über Öl", "(1)+(2)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		for _, v := range wording.Find(text) {
			if v.Start < at || v.End <= v.Start || v.End > len(text) {
				t.Fatalf("%q: value %+v after %d", text, v, at)
			}
			at = v.End
		}
		for _, q := range wording.Queries(text) {
			if utf8.ValidString(text) && !utf8.ValidString(q) {
				t.Fatalf("%q: query %q", text, q)
			}
		}
	})
}
