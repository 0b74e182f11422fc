package encoded_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
)

// encodings has the supported encodings.
var encodings = map[string]func(v string) string{
	"base64":          func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
	"base64, no pad":  func(v string) string { return base64.RawStdEncoding.EncodeToString([]byte(v)) },
	"base64 for URLs": func(v string) string { return base64.URLEncoding.EncodeToString([]byte(v)) },
	"base64 URL, raw": func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) },
	"base64 in MIME":  func(v string) string { return mime(strings.Repeat("-", 70)+" "+v+" and more", "\r\n") },
	"base64 in lines": func(v string) string { return mime(v+strings.Repeat(" and more", 20), "\n") },
	"base64 in repr":  func(v string) string { return mime(strings.Repeat("-", 30)+" "+v+" and more", `\n`) },
	"base64 in bytes": func(v string) string {
		return base64.StdEncoding.EncodeToString([]byte("\x00\xff\x80" + v + "\x00\x01"))
	},
	"hex":          func(v string) string { return hex.EncodeToString([]byte(v)) },
	"HEX":          func(v string) string { return strings.ToUpper(hex.EncodeToString([]byte(v))) },
	"hex with 0x":  func(v string) string { return "0x" + hex.EncodeToString([]byte(v)) },
	"hex in bytes": func(v string) string { return "f" + hex.EncodeToString([]byte("\xff"+v+"\x80")) },
	"hex, colons":  func(v string) string { return pairs(v, "", ":") },
	"hex, blanks":  func(v string) string { return pairs(v, "", " ") },
	"hex, dashes":  func(v string) string { return pairs(v, "", "-") },
	"hex list":     func(v string) string { return pairs(v, "0x", ", ") },
	"hex of each":  func(v string) string { return "['" + pairs(v, "0x", "', '") + "']" },
	"hex escapes":  func(v string) string { return pairs(v, `\x`, "") },
	"percent":      func(v string) string { return pairs(v, "%", "") },
	"URL query":    quoted(url.QueryEscape),
	"URL path":     quoted(func(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") }),
	"JSON":         func(v string) string { return runes(v, `\u%04x`) },
	"Python":       func(v string) string { return runes(v, `\U%08x`) },
	"HTML decimal": func(v string) string { return runes(v, "&#%d;") },
	"HTML hex":     func(v string) string { return runes(v, "&#x%X;") },
}

func mime(v, line string) string {
	var lines []string
	for c := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString([]byte(v))), 76) {
		lines = append(lines, string(c))
	}
	return strings.Join(lines, line)
}

func pairs(v, before, between string) string {
	var parts []string
	for _, b := range []byte(v) {
		parts = append(parts, fmt.Sprintf("%s%02x", before, b))
	}
	return strings.Join(parts, between)
}

func runes(v, form string) string {
	var b strings.Builder
	for _, r := range v {
		if r > 0xFFFF && form == `\u%04x` {
			r -= 0x10000
			fmt.Fprintf(&b, form+form, 0xD800+r>>10, 0xDC00+r&0x3FF)
			continue
		}
		fmt.Fprintf(&b, form, r)
	}
	return b.String()
}

// quoted skips values that quote leaves unchanged.
func quoted(quote func(string) string) func(string) string {
	return func(v string) string {
		if q := quote(v); q != v {
			return q
		}
		return pairs(v, "%", "")
	}
}

func finder(t testing.TB, values ...string) encoded.Finder {
	s, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x := known.New(1000)
	for _, v := range values {
		x.Add("KNOWN", v)
	}
	return encoded.Finder{Scan: s.Scan, Known: x.Find, Squeezed: x.FindSqueezed, Joined: x.FindJoined}
}

func TestFindKnownValueInAnyEncoding(t *testing.T) {
	for _, v := range []string{"Ada Lovelace", "bob@corp.com", "Grace", "+1 (212) 555-0123", "Zoë Ünal-😀 Öz", "hunter2\"'&<",
		"4111 1111 1111 1111", "Иван Петров", "a, b. c/d-e_f", "x\ny z\tw"} {
		f := finder(t, v)
		f.Scan = nil
		for name, put := range encodings {
			in := put(v)
			text := "It is here: (" + in + "). É – nothing more"
			found := f.Find(text)
			if !covers(found, strings.Index(text, in), v, in) {
				t.Errorf("%s of %q: %v in %q", name, v, found, text)
			}
			check(t, text, found)
		}
	}
}

func TestFindDetectedValueInAnyEncoding(t *testing.T) {
	f := finder(t)
	f.Known = nil
	for _, v := range []string{"bob.roe@example.com", "+1 415-555-0132", "4111 1111 1111 1111", "123-45-6789", "DE89370400440532013000",
		"ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek", "https://ada:s3cr3t7@db.example.com/"} {
		for name, put := range encodings {
			in := put(v)
			text := "It is here: (" + in + "). É – nothing more"
			if found := f.Find(text); len(found) == 0 {
				t.Errorf("%s of %q: %v in %q", name, v, found, text)
			}
		}
	}
}

func latin1(v string) string {
	r := make([]rune, len(v))
	for i := range r {
		r[i] = rune(v[i])
	}
	return string(r)
}

// eachByte formats each byte of v.
func eachByte(format string) func(v string) string {
	return func(v string) string {
		var b strings.Builder
		for i := range len(v) {
			fmt.Fprintf(&b, format, v[i])
		}
		return b.String()
	}
}

func TestFindValueInUnicode(t *testing.T) {
	f := finder(t, "Ada Lovelace", "Grace")
	for _, name := range []string{"utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"} {
		u, ok := encoded.UnicodeNamed(name)
		if !ok {
			t.Fatal(name)
		}
		for _, v := range []string{"Ada Lovelace", "Grace", "jane.roe@example.com", "4111 1111 1111 1111"} {
			for _, put := range []func(string) string{encodings["base64"], encodings["hex"], encodings["hex, colons"],
				func(v string) string { return strings.Trim(fmt.Sprintf("%+q", v), `"`) }, eachByte(`\u%04x`), eachByte("%%%02X"), latin1} {
				b, err := u.Encode("\ufeffx, " + v + ", y")
				if err != nil {
					t.Fatal(err)
				}
				text := put(string(b))
				found := f.Find(text)
				if len(found) != 1 || found[0].End-found[0].Start < len(text)*len(v)/(len(v)+10) {
					t.Errorf("%s of %q: %v in %q", name, v, found, text)
				}
			}
			if b, _ := u.Encode("\ufeff" + v); len(b) == 0 {
				t.Error(name)
			} else if is, ok := encoded.UnicodeOf(b); !ok || is.Name != name || is.Decode(b) != "\ufeff"+v {
				t.Errorf("%s: %v", name, is)
			}
		}
	}
}

// covers reports whether a finding covers more than half of the encoded value.
func covers(found []detect.Finding, at int, v, in string) bool {
	return slices.ContainsFunc(found, func(f detect.Finding) bool {
		return f.Start < at+len(in) && f.End > at && (f.End-f.Start >= len(v)/2)
	})
}

func TestFindingCoversEncodedValue(t *testing.T) {
	f := finder(t, "Ada Lovelace", "bob@corp.com")
	for _, want := range []string{
		"x «QWRhIExvdmVsYWNl» y",
		"x «Ym9iQGNvcnAuY29t»IC4= y",
		"x A«IEFkYSBMb3ZlbGFjZSA=» y",
		"«bob%40corp.com»",
		"mail=«bob%40corp.com»&x=%20",
		`"«Ada\u0020Lovelace»"`,
		"«Ada&#32;Lovelace»",
		"«bob&commat;corp.com»",
		"«Ada+Lovelace»",
		"key «0x62, 0x6f, 0x62, 0x40, 0x63, 0x6f, 0x72, 0x70, 0x2e, 0x63, 0x6f, 0x6d», 0x20",
		`b'«\x62\x6f\x62\x40\x63\x6f\x72\x70\x2e\x63\x6f\x6d»'`,
		"0x«626f6240636f72702e636f6d»20",
	} {
		text := unmark.Replace(want)
		if got := mark(text, f.Find(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFindOmitsPlainValues(t *testing.T) {
	f := finder(t, "Ada Lovelace", "1111111", "bob@corp.com")
	for _, text := range []string{"Ada Lovelace", "Ada Lovelace\\n", "%20 Ada Lovelace", "1111111", `{"mail": \"bob@corp.com\"}`,
		"a+b bob@corp.com &amp; Ada Lovelace"} {
		if found := f.Find(text); len(found) > 0 {
			t.Errorf("%q: %v", text, found)
		}
	}
}

func TestFindPlainValueAfterEscape(t *testing.T) {
	for _, text := range []string{"%22131-42-4002%22", `b'\x8c\x0b131-42-4002\x94'`, `\u0022131-42-4002`} {
		found := finder(t).Find(text)
		if len(found) != 1 || text[found[0].Start:found[0].End] != "131-42-4002" {
			t.Errorf("%s: %v", text, found)
		}
	}
}

func TestFindOmitsShortNumbers(t *testing.T) {
	f := finder(t, "12345")
	for _, text := range []string{"1 2 3 4 5", "1\n2\n3\n4\n5"} {
		if found := f.Find(text); len(found) > 0 {
			t.Errorf("%q: %v", text, found)
		}
	}
	if found := f.Across([]string{"12", "345"}); len(found) > 0 {
		t.Error(found)
	}
}

func TestFinderWithoutFunctions(t *testing.T) {
	var f encoded.Finder
	if found := f.Find("QWRhIExvdmVsYWNl"); found != nil {
		t.Error(found)
	}
	if found := f.Across([]string{"a", "b"}); found != nil {
		t.Error(found)
	}
}

func TestFindInLongText(t *testing.T) {
	f := finder(t, "Ada Lovelace")
	for name, put := range encodings {
		var text strings.Builder
		n := 0
		for text.Len() < 300<<10 {
			text.WriteString("\nIt is (" + put("Ada Lovelace") + ") and " + put("nobody of whom anything is known") + " – ")
			n++
		}
		found := f.Find(text.String())
		if len(found) != n {
			t.Errorf("%s: found %d of %d", name, len(found), n)
		}
		check(t, text.String(), found)
	}
}

// One value in each 17 KB of a run, at positions that are unrelated to the size of the
// parts in which the run is read.
func TestFindInLongRun(t *testing.T) {
	f := finder(t, "Ada Lovelace")
	plain := strings.Repeat(strings.Repeat("nothing of note, ", 999)+"Ada Lovelace, ", 20)
	for _, name := range []string{"base64", "base64 in MIME", "hex", "hex escapes", "percent", "JSON", "hex, colons"} {
		text := encodings[name](plain)
		found := f.Find(text)
		if len(found) != 20 {
			t.Errorf("%s: found %d", name, len(found))
		}
		check(t, text, found)
	}
}

func TestFindValueInPattern(t *testing.T) {
	f := finder(t, "Ada Lovelace")
	for _, c := range []string{`re.compile('«jane\.roe@example\.com»')`, `«131\-42\-4002» or «Ada\ Lovelace»`,
		`**«jane\_roe\@example.com»**`, `C:\#dir\(x)`} {
		text := strings.NewReplacer("«", "", "»", "").Replace(c)
		if d := cmp.Diff(c, mark(text, f.Find(text))); d != "" {
			t.Error(d)
		}
	}
}

func TestFindKnownValueAcrossLineBreak(t *testing.T) {
	f := finder(t, "bob@corp.com", "Ada Lovelace", "+1 212 555 0123", "Grace")
	for _, c := range []string{"dear «Ada\nLovelace», no", "> «Ada\n> Lovelace»", "'«Ada '\n   'Lovelace»'", "«bob@co\r\nrp.com»",
		"call «+1 212 555\n0123»\nnow",
		"Ada Lovelace\n«Ada\n Lovelace»\nbob@corp.com", "«bob@\ncorp\n.com»", "b'«bob@'\n b'corp.'\n b'com»'", "«Ada Lovelace»",
		"«+1 212 555 0123»", "«A\nda\nLove\nlace»",
		"| «+1 212\n| 555 0123»", "«+1 2 1255 5012 3» 4", "«bob@ corp .com»", "«Ada\u00ad\u200b Love\u00adlace»", "The\no Ada,\nLovelace",
		"Gra\nceful", "Ada,\nLovelace", "\n\n", "'\n'\n'"} {
		text := strings.NewReplacer("«", "", "»", "").Replace(c)
		if d := cmp.Diff(c, mark(text, f.Find(text))); d != "" {
			t.Error(d)
		}
	}
}

func TestAcross(t *testing.T) {
	f := finder(t, "bob@corp.com", "Ada Lovelace", "212-555-0123", "Grace", "first line\nsecond line")
	for _, c := range []struct {
		pieces []string
		want   []string
	}{
		{[]string{"bob@corp.com", "Next line"}, nil},
		{[]string{"x bob@co", "rp.com y"}, []string{"bob@co|rp.com"}},
		{[]string{"x bob@co\n", "rp.com\n", "y"}, []string{"bob@co|rp.com"}},
		{[]string{"mail", "bob@co", "rp.com", "done"}, []string{"bob@co|rp.com"}},
		{[]string{"Gra", "ce", "Hopper"}, []string{"Gra|ce"}},
		{[]string{"Ada ", "", "Love", "lace"}, []string{"Ada |Love|lace"}},
		{[]string{"(212) 5", "550123", "1"}, []string{"(212) 5|550123"}},
		{[]string{"to Ada", "Lovelace"}, []string{"Ada|Lovelace"}},
		{[]string{"first line", "second line"}, []string{"first line|second line"}},
		{[]string{"jane.roe@exam", "ple.com"}, []string{"jane.roe@exam|ple.com"}},
		{[]string{"4111 1111 ", "1111 1111"}, []string{"4111 1111 |1111 1111"}},
		{[]string{"one", "two", "three"}, nil},
		{[]string{"bob@corp.com"}, nil},
		{nil, nil},
		{[]string{"", "\n", ""}, nil},
	} {
		var got []string
		for _, s := range f.Across(c.pieces) {
			var parts []string
			for _, p := range s.Parts {
				parts = append(parts, c.pieces[p.Piece][p.Start:p.End])
			}
			got = append(got, strings.Join(parts, "|"))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: %s", c.pieces, d)
		}
	}
}

func TestAcrossJoinsKeyPrintedByLine(t *testing.T) {
	key := []string{"-----BEGIN PRIVATE KEY-----"}
	for range 20 {
		key = append(key, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDa3x7qk2vLw9Zs")
	}
	key = append(key, "-----END PRIVATE KEY-----")
	found := finder(t).Across(slices.Concat([]string{"here:"}, key, []string{"that was it"}))
	if len(found) != 1 || len(found[0].Parts) != len(key) || found[0].Type != detect.PrivateKey {
		t.Errorf("%+v", found)
	}
}

// mark returns text with « and » around the findings.
func mark(text string, found []detect.Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		fmt.Fprintf(&b, "%s«%s»", text[at:f.Start], text[f.Start:f.End])
		at = f.End
	}
	return b.String() + text[at:]
}

var unmark = strings.NewReplacer("«", "", "»", "")

func check(t *testing.T, text string, found []detect.Finding) {
	t.Helper()
	end := 0
	for _, f := range found {
		if f.Start < end || f.End <= f.Start || f.End > len(text) || f.Score < 0.8 || f.Score > 1 || f.Type == "" {
			t.Fatalf("%+v in %d bytes of %.200q", f, len(text), text)
		}
		if end = f.End; !border(text, f.Start) || !border(text, f.End) {
			t.Fatalf("%+v splits a rune of %.200q", f, text)
		}
	}
}

// border reports whether i is a rune boundary of text. In invalid UTF-8 every byte is
// a rune.
func border(text string, i int) bool {
	for back := 1; back < 4 && i-back >= 0 && i < len(text); back++ {
		if r := []rune(text[i-back : min(len(text), i-back+4)]); len(r) > 0 && r[0] != 0xFFFD && len(string(r[0])) > back {
			return false
		}
	}
	return true
}
