package known_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
)

// FuzzKnown compares Find with a separate search for each value: findings cover every
// occurrence, and every byte of a finding belongs to one.
func FuzzKnown(f *testing.F) {
	f.Add("Ada Lovelace|Ada L|Grace|212-555-0123", "Ada Lovelace, Ada L, Graces (212) 555-0123", uint8(9))
	f.Add("a a a|a a a a a|a a a b", "a a a a a a a b", uint8(2))
	f.Add("....:|é.é.é|Éé.é.é", "......:é.é.é.é", uint8(0))
	f.Add("Ann|ann lee|Lee-ann|1234567", "Lee-ann leeAnn1234567ann 12345678 1 234567", uint8(3))
	f.Fuzz(func(t *testing.T, list, text string, most uint8) {
		values := strings.Split(list, "|")
		x, all := known.New(int(most)), known.New(known.MaxForms*len(values))
		for _, v := range values {
			x.Add("KNOWN", v)
			all.Add("KNOWN", v)
		}
		x.Find(text)
		x.FindSqueezed(text, nil)
		found := all.Find(text)
		checkFound(t, text, values, found)
		for _, v := range values {
			checkCovered(t, text, v, found)
		}
	})
}

func checkFound(t *testing.T, text string, values []string, found []detect.Finding) {
	end := 0
	for _, f := range found {
		if f.Start < end || f.End <= f.Start || f.End > len(text) || f.Score != 1 || f.Type != "KNOWN" {
			t.Fatalf("%+v in %d bytes of %q", f, len(text), text)
		}
		end = f.End
		if rest := f.End - f.Start - covered(text[f.Start:f.End], values); rest > 0 {
			t.Fatalf("finding %q in %q has %d bytes that belong to none of %q", text[f.Start:f.End], text, rest, values)
		}
	}
}

// covered counts the bytes of part that belong to a value.
func covered(part string, values []string) (n int) {
	in := make([]bool, len(part))
	for i := range part {
		for j := i + 1; j <= len(part); j++ {
			if isOne(part[i:j], values) {
				for k := i; k < j; k++ {
					in[k] = true
				}
			}
		}
	}
	for _, is := range in {
		if is {
			n++
		}
	}
	return n
}

func isOne(part string, values []string) bool {
	for _, v := range values {
		if letters(v) == letters(part) || len(digits(v)) >= 7 && strings.TrimLeft(digits(v), "0") == strings.TrimLeft(digits(part), "0") {
			return true
		}
	}
	return false
}

func checkCovered(t *testing.T, text, v string, found []detect.Finding) {
	word := !strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsLetter(r) })
	capital := strings.ContainsFunc(v, unicode.IsUpper)
	if len(v) < 2 || len(v) > 16<<10 || !utf8.ValidString(v) || len(v) < 5 && !capital {
		return
	}
	in, what := lower(text), lower(v)
	if word || len(v) < 5 {
		in, what = text, v
	}
	needsBorders := len(v) < 5 || word && !capital || strings.Trim(v, "0123456789") == ""
	for i := 0; ; i++ {
		n := strings.Index(in[i:], what)
		if n < 0 {
			return
		}
		i += n
		if (!needsBorders || alone(in, i, i+len(v))) && !isCovered(i, i+len(v), found) {
			t.Fatalf("%q at %d of %q is not found: %+v", v, i, text, found)
		}
	}
}

// alone reports whether spaces or punctuation surround text[i:j].
func alone(text string, i, j int) bool {
	side := func(s string) bool { return s == "" || s[0] < 0x80 && strings.IndexByte(" .,;:!?\"'()", s[0]) >= 0 }
	return side(text[j:]) && (i == 0 || side(text[i-1:i]))
}

// isCovered reports whether a finding covers text[i:j].
func isCovered(i, j int, found []detect.Finding) bool {
	for _, f := range found {
		if f.Start <= i && j <= f.End {
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

// letters returns s in lower case, without the marks of letters.
func letters(s string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(s)))
}

func digits(s string) string {
	var out []byte
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			out = append(out, s[i])
		} else if !strings.ContainsRune(" -.()/+,_'", rune(s[i])) && s[i] < 0x80 {
			return ""
		}
	}
	return string(out)
}
