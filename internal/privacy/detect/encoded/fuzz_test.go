package encoded_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
)

// wrapped lists encodings that add bytes around the value.
var wrapped = []string{"base64 in MIME", "base64 in lines", "base64 in repr", "base64 in bytes", "hex in bytes"}

// FuzzFind inserts an encoded known value into any text.
func FuzzFind(f *testing.F) {
	for i := range len(encodings) {
		f.Add("before ", "Ada Lovelace", " after", uint8(i))
		f.Add(`%é\u00QUFB`, "Zoë+4% a@b.co", "QUFB&# 4", uint8(i))
	}
	kinds := slices.Sorted(maps.Keys(encodings))
	scan := finder(f).Scan
	f.Fuzz(func(t *testing.T, before, v, after string, kind uint8) {
		x := known.New(1)
		x.Add("KNOWN", v)
		find := encoded.Finder{Scan: scan, Known: x.Find, Squeezed: x.FindSqueezed}
		check(t, before, find.Find(before))
		name := kinds[int(kind)%len(kinds)]
		in := encodings[name](v)
		before, after = before[:min(len(before), 900)]+"<", ">"+after[:min(len(after), 900)]
		text := before + in + after
		found := find.Find(text)
		check(t, text, found)
		if !mustBeFound(x, v, in, name) {
			return
		}
		most := 5
		if slices.Contains(wrapped, name) {
			most = len(in) - len(v)
		}
		if left := uncovered(found, len(before), len(before)+len(in)); left > most {
			t.Fatalf("%s of %q: %d bytes are not covered by %+v in %q", name, v, left, found, text)
		}
	})
}

// mustBeFound reports whether Find must find the encoded value: the index has it, it
// is valid text, and its ends are unambiguous.
func mustBeFound(x *known.Index, v, in, name string) bool {
	if whole := x.Find(v); len(whole) != 1 || whole[0].End-whole[0].Start != len(v) || x.Find("<"+in+">") != nil || len(in) > 1000 {
		return false
	}
	for _, r := range v {
		if unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' || r == utf8.RuneError {
			return false
		}
	}
	first, _ := utf8.DecodeRuneInString(v)
	last, _ := utf8.DecodeLastRuneInString(v)
	ambiguous := strings.ContainsAny(v, "<>") // the surrounding text also contains these
	ends := !ambiguous && unicode.In(first, unicode.L, unicode.N) && unicode.In(last, unicode.L, unicode.N)
	return ends && (name != "" && !strings.HasSuffix(name, "in bytes") || len(v) >= 7 || strings.Trim(v, "0123456789") != "") &&
		utf8.RuneCountInString(v) >= 5
}

func uncovered(found []detect.Finding, start, end int) int {
	left := end - start
	for _, f := range found {
		left -= max(0, min(f.End, end)-max(f.Start, start))
	}
	return left
}

// FuzzAcross splits a known value at any position.
func FuzzAcross(f *testing.F) {
	f.Add("before", "Ada Lovelace", "after", uint64(0x24))
	f.Add("1", "212-555-0123", "1", ^uint64(0))
	f.Fuzz(func(t *testing.T, before, v, after string, cuts uint64) {
		x := known.New(1)
		x.Add("KNOWN", v)
		find := encoded.Finder{Scan: finder(t).Scan, Known: x.Find, Squeezed: x.FindSqueezed}
		pieces, start := []string{before}, 0
		for i := 1; i < len(v); i++ {
			if cuts>>(i%64)&1 == 1 {
				pieces, start = append(pieces, v[start:i]), i
			}
		}
		pieces = append(pieces, v[start:], after)
		spreads := find.Across(pieces)
		for _, s := range spreads {
			last := -1
			for _, p := range s.Parts {
				if p.Piece <= last || p.Start < 0 || p.End <= p.Start || p.End > len(pieces[p.Piece]) {
					t.Fatalf("%+v of %q", s, pieces)
				}
				last = p.Piece
			}
		}
		if mustBeFound(x, v, "", "") && len(pieces) > 3 && !strings.ContainsAny(v, "\r\n") && len(spreads) == 0 {
			t.Fatalf("%q in %q", v, pieces)
		}
	})
}
