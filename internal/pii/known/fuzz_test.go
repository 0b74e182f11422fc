package known_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/pii"
	"github.com/sandpiper-mcp/sandpiper/internal/pii/known"
)

// FuzzKnown holds Find against a search for each value by itself: what is found
// is a value, and every place where one stands is found or lies in what is.
func FuzzKnown(f *testing.F) {
	f.Add("Ada Lovelace|Ada L|Grace|212-555-0123", "Ada Lovelace, Ada L, Graces (212) 555-0123", uint8(9))
	f.Add("a a a|a a a a a|a a a b", "a a a a a a a b", uint8(2))
	f.Add("....:|é.é.é|Éé.é.é", "......:é.é.é.é", uint8(0))
	f.Fuzz(func(t *testing.T, list, text string, most uint8) {
		values := strings.Split(list, "|")
		x, all := known.New(int(most)), known.New(len(values))
		for _, v := range values {
			x.Add("KNOWN", v)
			all.Add("KNOWN", v)
		}
		x.Find(text)
		found := all.Find(text)
		checkFound(t, text, values, found)
		for _, v := range values {
			checkCovered(t, text, v, found)
		}
	})
}

func checkFound(t *testing.T, text string, values []string, found []pii.Finding) {
	end := 0
	for _, f := range found {
		if f.Start < end || f.End <= f.Start || f.End > len(text) || f.Score != 1 || f.Type != "KNOWN" {
			t.Fatalf("%+v in %d bytes of %q", f, len(text), text)
		}
		end = f.End
		if !isOne(text[f.Start:f.End], values) {
			t.Fatalf("%q of %q is none of %q", text[f.Start:f.End], text, values)
		}
	}
}

func isOne(part string, values []string) bool {
	for _, v := range values {
		if lower(v) == lower(part) || len(digits(v)) >= 7 && digits(v) == digits(part) {
			return true
		}
	}
	return false
}

func checkCovered(t *testing.T, text, v string, found []pii.Finding) {
	word := !strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(v) < 5 || len(v) > 16<<10 || !utf8.ValidString(v) || word && !strings.ContainsFunc(v, unicode.IsUpper) {
		return
	}
	in, what := lower(text), lower(v)
	if word {
		in, what = text, v
	}
	for i := 0; ; i++ {
		n := strings.Index(in[i:], what)
		if n < 0 {
			return
		}
		i += n
		if alone(in, i, i+len(v)) && !covered(i, i+len(v), found) {
			t.Fatalf("%q at %d of %q is not found: %+v", v, i, text, found)
		}
	}
}

// alone reports whether what stands beside text[i:j] is a blank or punctuation.
func alone(text string, i, j int) bool {
	side := func(s string) bool { return s == "" || s[0] < 0x80 && strings.IndexByte(" .,;:!?\"'()", s[0]) >= 0 }
	return side(text[j:]) && (i == 0 || side(text[i-1:i]))
}

// covered reports whether a finding has at least a part of text[i:j]: another value may go over its end.
func covered(i, j int, found []pii.Finding) bool {
	for _, f := range found {
		if f.Start < j && i < f.End {
			return true
		}
	}
	return false
}

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}

func digits(s string) string {
	var out []byte
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			out = append(out, s[i])
		} else if strings.IndexByte(" -.()/+", s[i]) < 0 {
			return ""
		}
	}
	return string(out)
}
