package detect_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// TestCases reads testdata/cases.txt. A line is a type, '|' and a text in which the
// expected findings of that type are between « and ».
func TestCases(t *testing.T) {
	f, err := os.Open("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, n := scanner(t), 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		typ, marked, ok := strings.Cut(lines.Text(), "|")
		if !ok || strings.HasPrefix(typ, "#") {
			continue
		}
		n++
		marked = unescape.Replace(marked)
		text := unmark.Replace(marked)
		if got := mark(text, detect.Type(typ), s.Scan(text)); got != marked {
			t.Errorf("%s\n got %q\nwant %q", typ, got, marked)
		}
	}
	if n < 80 {
		t.Errorf("only %d cases were read", n)
	}
}

var (
	unmark   = strings.NewReplacer("«", "", "»", "")
	unescape = strings.NewReplacer(`¶`, "\n")
)

func mark(text string, typ detect.Type, found []detect.Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		if f.Type == typ {
			fmt.Fprintf(&b, "%s«%s»", text[at:f.Start], text[f.Start:f.End])
			at = f.End
		}
	}
	return b.String() + text[at:]
}

func TestValueUsesKey(t *testing.T) {
	s, err := detect.New(detect.Config{Keys: map[string]detect.Type{"badge-no": "BADGE"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, value, want string }{
		{"phone", "5551234567", "PHONE 5551234567"},
		{"phoneNumber", "(0)30 1234567", "PHONE (0)30 1234567"},
		{"customer_first_name", "Zoë", "NAME Zoë"},
		{"full_name", "Ada Lovelace", "NAME Ada Lovelace"},
		{"name", "Ada Lovelace", ""}, // no evidence in the record
		{"name", "list_issues", ""},
		{"address", "12 Main St, Springfield", "ADDRESS 12 Main St, Springfield"},
		{"address", "10.1.2.3", "IP_ADDRESS 10.1.2.3"},
		{"ssn", "219099998", "SSN 219099998"},
		{"badgeNo", "x", "BADGE x"},
		{"api_token", "q9w8e7r6t5y4u3i2o1", "API_KEY q9w8e7r6t5y4u3i2o1"},
		{"note", "5551234567", ""},
		{"order_id", "5551234567", ""},
		{"", "a@b.co", "EMAIL a@b.co"},
		{"mail", "a@b.co", "EMAIL a@b.co"},
	} {
		var got []string
		for _, f := range s.Value(c.key, c.value) {
			got = append(got, fmt.Sprintf("%s %s", f.Type, c.value[f.Start:f.End]))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q: got %q, want %q", c.key, c.value, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		"card 4111111111111111": `card number: 16 digits; the Luhn checksum is valid; the word "card" before it`,
		"card 411111111111111": `card number: 15 digits of a network that issues numbers with one more, in the ` +
			`groups of a card or after a word; the word "card" before it`,
		"card 4111111111111112": "not CREDIT_CARD: the Luhn checksum is wrong",
		"ring 5551234567":       `telephone number: 10 digits; the word "ring" before it`,
		"item 5551234567": "not PHONE: without a country code, groups or a word such as phone before it, digits " +
			"are no telephone number",
		"order 5551234567":      `not PHONE: the word "order" before it denotes another number`,
		`{"first_name": "Ada"}`: `name of a person: the key "first_name"`,
		`{"name": "Ada Lovelace"}`: "not NAME: nothing else in the record indicates a person; pii.names: always does not " +
			"require it",
		"api_key=your_key_here": `not API_KEY: the name "api_key" denotes a secret, and the value is a placeholder`,
		"version 1.2.3.4": "not IP_ADDRESS: a word or an operator before it denotes a version or section, or it " +
			"begins with zero",
		"x ghp_rux89mufsmjgzakyqih5fk1qcwjoj": "",
		"ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek": `key, token or password: the prefix "ghp_" of its issuer, and 36 to 36 characters ` +
			`after it`,
	} {
		found, near := scanner(t).Explain(text)
		got := ""
		for _, f := range found {
			got += f.Rule + ": " + strings.Join(f.Evidence, "; ")
		}
		for _, m := range near {
			got += fmt.Sprintf("not %s: %s", m.Type, m.Reason)
		}
		if got != want {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestPatternsOfOperator(t *testing.T) {
	s, err := detect.New(detect.Config{Patterns: []detect.Pattern{{"EMPLOYEE", `\bEMP-\d{4}\b`}, {"CASE", `case (\d+)`}}})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Scan("EMP-1234 in case 77")
	want := []detect.Finding{{"EMPLOYEE", 0, 8, 1}, {"CASE", 17, 19, 1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for name, cfg := range map[string]detect.Config{
		"no regular expression": {Patterns: []detect.Pattern{{"X1", `(`}}},
		"look-around":           {Patterns: []detect.Pattern{{"X1", `(?=a)`}}},
		"empty match":           {Patterns: []detect.Pattern{{"X1", `a*`}}},
		"long":                  {Patterns: []detect.Pattern{{"X1", strings.Repeat("a", 2000)}}},
		"many":                  {Patterns: make([]detect.Pattern, 65)},
		"type":                  {Patterns: []detect.Pattern{{"lower", `a`}}},
		"type of a key":         {Keys: map[string]detect.Type{"a": "a b"}},
		"key":                   {Keys: map[string]detect.Type{"--": "X1"}},
	} {
		if _, err := detect.New(cfg); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStreamEqualsScan(t *testing.T) {
	s := scanner(t)
	text := long(300 << 10)
	want := s.Scan(text)
	if len(want) < 1000 {
		t.Fatalf("Scan found only %d values", len(want))
	}
	for _, size := range []int{1, 7, 1000, 4096, 32 << 10, 99_999, len(text)} {
		got, rejoined := stream(s, text, size)
		if rejoined != text {
			t.Fatalf("pieces of %d bytes: the returned text differs", size)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("pieces of %d bytes: %s", size, d)
		}
	}
}

// Text that almost matches everywhere produces long chains of overlapping candidates.
func TestStreamEqualsScanOfHostileText(t *testing.T) {
	s := scanner(t)
	for name, unit := range hostile {
		filler := strings.Repeat(unit, 20<<10/len(unit))
		text := filler + "\n" + long(300) + filler + "\n+1 415-555-0132 " + filler + "\njane@example.com " + filler
		want := s.Scan(text)
		checkSpans(t, text, want)
		got, rejoined := stream(s, text, 1021)
		if rejoined != text {
			t.Fatalf("%s: the returned text differs", name)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if !slices.ContainsFunc(want, func(f detect.Finding) bool { return text[f.Start:f.End] == "jane@example.com" }) {
			t.Errorf("%s: the address was not found", name)
		}
	}
}

// stream passes text to a Stream in pieces of size bytes and returns the text and the
// findings, with positions in the whole text.
func stream(s *detect.Scanner, text string, size int) (found []detect.Finding, rejoined string) {
	st := s.Stream()
	var b strings.Builder
	take := func(text string, fs []detect.Finding) {
		for _, f := range fs {
			f.Start, f.End = f.Start+b.Len(), f.End+b.Len()
			found = append(found, f)
		}
		b.WriteString(text)
	}
	for rest := text; rest != ""; {
		n := min(size, len(rest))
		take(st.Write(rest[:n]))
		rest = rest[n:]
	}
	take(st.Close())
	return found, b.String()
}

// long returns text with values nearly everywhere, so that block boundaries split some.
func long(size int) string {
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n",
		40) + "-----END PRIVATE KEY-----\n"
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id": %d, "mail": "jané.roe%d@example.org", "phones": ["+1 415-555-%04d"], "ip": "10.%d.0.1", "url": `+
			`"https://u:p%dw@h.io/"}`+"\n", i, i, i%10000, i%256, i)
		if i%97 == 0 {
			b.WriteString(key)
		}
	}
	return b.String()
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{"a@b.co", "+1 415-555-0132", "https://u:p@h/", "é4111 1111 1111 1111", "2001:db8::1",
		"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("abcd1234", 9),
		`{"name": "Ada Lovelace", "phones": ["5551234567"]}`, `\"address\": \"12 Main St\"`,
		"token = ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek", "Dear Ünal Öz,", "dl A123*4*5", "Hi Kevin, Ada van Lovelace met J. É. Öz"} {
		f.Add(seed, uint16(3))
	}
	rules := []*detect.Scanner{scanner(f), proseScanner(f)}
	f.Fuzz(func(t *testing.T, text string, pad uint16) {
		s := rules[pad%2]
		checkSpans(t, text, s.Scan(text))
		checkSpans(t, text, s.Value("phone", text))
		padded := strings.Repeat("x 1,", int(pad)) + text + strings.Repeat(" y@", 3000) + text
		want := s.Scan(padded)
		checkSpans(t, padded, want)
		got, rejoined := stream(s, padded, int(pad)%5000+1)
		if rejoined != padded {
			t.Fatal("the returned text differs")
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func checkSpans(t *testing.T, text string, found []detect.Finding) {
	end := 0
	for _, f := range found {
		if f.Start < end || f.End <= f.Start || f.End > len(text) || f.Score <= 0 || f.Score > 1 {
			t.Fatalf("%+v in %d bytes of %q", f, len(text), text)
		}
		if end = f.End; !border(text, f.Start) || !border(text, f.End) {
			t.Fatalf("%+v splits a rune of %q", f, text)
		}
	}
}

// border reports whether i is a rune boundary of text. In invalid UTF-8 every byte is
// a rune.
func border(text string, i int) bool {
	if i == 0 || i == len(text) {
		return true
	}
	for back := 1; back < 4 && i-back >= 0; back++ {
		if r := []rune(text[i-back : min(len(text), i-back+4)]); len(r) > 0 && r[0] != 0xFFFD && len(string(r[0])) > back {
			return false
		}
	}
	return true
}

// hostile has texts that almost match a rule at every byte.
var hostile = map[string]string{
	"names":       `"name":"Ab Cd",`,
	"records":     `{"name":"Ab Cd"},`,
	"name lines":  "Name: Ab Cd\n",
	"digits":      "1",
	"spaced":      "1 ",
	"dashes":      "12-3",
	"dots":        "1.",
	"at":          "@",
	"local":       "a@",
	"domains":     "a.b-c.",
	"colons":      "a1:",
	"doubles":     "::",
	"urls":        "://a:b",
	"letters":     "abc",
	"base64":      "aB3/+=",
	"jwt":         "eyJhbGciOiJIUzI1NiJ9.",
	"jwts":        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.a.",
	"pem":         "-----BEGIN PRIVATE KEY-----",
	"pemends":     "-----BEGIN PRIVATE KEY-----a-----END",
	"dashesonly":  "-",
	"phones":      "+1 415-",
	"parens":      "(1) ",
	"cards":       "4111 1111 1111 1112 ",
	"assigned":    `token="`,
	"values":      "token=a1/",
	"passwords":   "password=a1/",
	"keys":        `"name":`,
	"lists":       `"phones":["1",`,
	"quotes":      `"`,
	"backslashes": `\n`,
	"labels":      "Name: a\n",
	"dear":        "Dear A B C ",
	"persons":     "Ada Smith. Ada, ",
	"hints":       "driver1 ",
	"iban":        "DE89 3704 0044 0532 0130 01 ",
	"wallets":     "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3 ",
	"bech32":      "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdr ",
	"eth":         "0x52908400098527886e0F7030069857D2E4169EE7 ",
	"secrets":     "sk-a.glpat-b.xoxb-c.",
	"high":        "é@",
	"zeros":       "\x00",
	"broken":      "\x80@\xff.",
}
