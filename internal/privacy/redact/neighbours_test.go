package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// people are records of a server, one for each type of value.
const people = `[
	{"name":"Ada Lovelace","email":"ada@example.com","phone":"(212) 555-0123","ssn":"131-42-4002","card":"4111 1111 1111 1111"},
	{"name":"Grace Hopper","email":"grace.hopper+navy@corp.example","phone":"+1 415-555-0132","ssn":"196-49-3942","card":"5500005555555559"},
	{"first_name":"Konrad","last_name":"Zuse","phone":"+49 30 901820","iban":"DE89370400440532013000","address":"12 Main Street, Springfield"},
	{"ip":"8.8.4.4","mac":"00:1A:2B:3C:4D:5E","key":"ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek","db":"postgres://ada:Nm5Kq2xg3ODg3@db.example.com/shop"}]`

// values are those in people.
var values = []string{
	"Ada Lovelace", "ada@example.com", "(212) 555-0123", "131-42-4002", "4111 1111 1111 1111",
	"Grace Hopper", "grace.hopper+navy@corp.example", "+1 415-555-0132", "196-49-3942", "5500005555555559",
	"Konrad", "+49 30 901820", "DE89370400440532013000", "12 Main Street, Springfield",
	"8.8.4.4", "00:1A:2B:3C:4D:5E", "ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek", "ada:Nm5Kq2xg3ODg3",
}

// informed returns the gate of a rig that has ingested people.
func informed(t testing.TB) *redact.Gate {
	t.Helper()
	e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
	if _, err := e.Ingester().Text(t.Context(), people); err != nil {
		t.Fatal(err)
	}
	e.Ingester().Wait()
	return e
}

// forms are the positions of a text in an answer.
var forms = map[string]func(text string) any{
	"text":           func(text string) any { return text },
	"result":         func(text string) any { return map[string]any{"result": text, "success": true} },
	"item of output": func(text string) any { return map[string]any{"output": []string{"before", text, "after"}} },
	"key":            func(text string) any { return map[string]any{"result": map[string]int{text: 1}} },
	"traceback": func(text string) any {
		return map[string]any{"error": "ValueError: " + text, "traceback": "File \"<code>\", line 1\n  " + text}
	},
	"JSON in a string":  func(text string) any { return map[string]any{"result": marshalBody(map[string]string{"note": text})} },
	"path":              func(text string) any { return []string{"out/" + text + ".txt"} },
	"comment in source": func(text string) any { return "x = 1  # " + text + "\n" },
}

func marshalBody(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// Of any concatenation of known values, with any separator or none, only the
// separators remain.
func TestConcatenatedValuesAreAllReplaced(t *testing.T) {
	e := informed(t)
	r := rand.New(rand.NewPCG(1, 13))
	separators := []string{"", "", " ", "  ", "-", ", ", ":", "/", "\n", "_", "&", "=", "x", "0", "7", ".", "+", "|", "' '", "\t", "é"}
	for range 500 {
		var text strings.Builder
		var between []string
		for i := range 2 + r.IntN(4) {
			if i > 0 {
				sep := separators[r.IntN(len(separators))]
				between = append(between, sep)
				text.WriteString(sep)
			}
			text.WriteString(values[r.IntN(len(values))])
		}
		for name, form := range forms {
			body := form(text.String())
			left := redacted(t, e, body)
			if rest := remains(left, marshalBody(form(strings.Join(between, "")))); rest != "" {
				t.Fatalf("%s: %q leaves %q in %s", name, text.String(), rest, left)
			}
		}
	}
}

// remains returns the first part of a value that is still in left: at least half of
// it, or five consecutive bytes, that are not in the frame around the values.
func remains(left, frame string) string {
	bare := strings.ToLower(token.ReplaceAllString(left, "\x00"))
	frame = strings.ToLower(frame)
	for _, v := range values {
		v = strings.ToLower(v)
		for i := 0; i+5 <= len(v); i++ {
			if part := v[i : i+5]; strings.Contains(bare, part) && !strings.Contains(frame, part) {
				return part
			}
		}
	}
	return ""
}

// Lower-case words are names too, also in keys of a result; the keys of our own
// answers stay.
func TestKnownLowerCaseWordIsReplaced(t *testing.T) {
	e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
	if _, err := e.Ingester().Text(t.Context(), `[{"first_name":"lovelace"},{"first_name":"success"},{"first_name":"Ann"}]`); err != nil {
		t.Fatal(err)
	}
	body := json.RawMessage(`{"success":true,"result":{"lovelace":2,"Annual":1},"output":["Ann lovelace, lovelaces","{\"lovelace\": 1}"]}`)
	want := `{"success":true,"result":{"<NAME>":2,"Annual":1},"output":["<NAME> <NAME>, lovelaces","{\"<NAME>\": 1}"]}`
	if got := shown(redacted(t, e, body)); got != want {
		t.Errorf("got %s", got)
	}
}

// Names of files, URLs and identifiers separate the words of a name by other characters.
func TestKnownNamesAreReplacedInSlugs(t *testing.T) {
	e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
	records := `[{"name":"Zebulon Quarterstaff","email":"z@corp.example"},{"customer_name":"J. R. O'Brien","address":"12 Main Street, Springfield"},
		{"customer_name":"Zoë Ünal-Öz"},{"customer_name":"Иван Петров"}]`
	if _, err := e.Ingester().Text(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	e.Ingester().Wait()
	for _, as := range []string{
		"Zebulon_Quarterstaff", "zebulon-quarterstaff", "Zebulon.Quarterstaff", "ZEBULON/QUARTERSTAFF", "Zebulon__Quarterstaff",
		"Zebulon_-_Quarterstaff",
		"ZebulonQuarterstaff", "zebulonquarterstaff", "zebulon+quarterstaff", "zebulon%20quarterstaff", "Zebulon,Quarterstaff",
		`zebulon\quarterstaff`, "zebulon~quarterstaff",
		"j_r_o_brien", "J.R.O'Brien", "jr-obrien", "12_main_street_springfield", "12-Main-Street,-Springfield",
		"zoe-unal-oz", "zoë_ünal_öz", "ZOË.ÜNAL.ÖZ", "ZOË ÜNAL-ÖZ", "иван_петров", "ИВАН ПЕТРОВ", "иван петров",
	} {
		for _, form := range []string{"%s", "reports/%s.txt", "2026-11-28_%s_v2.tar.gz", "workspace:///a.b/%s/c.csv", "by %s", "x_%s"} {
			name := fmt.Sprintf(form, as)
			for place, body := range map[string]any{
				"text": name, "cursor": base64.StdEncoding.EncodeToString([]byte("workspace://" + name)),
				"query": "q=" + url.QueryEscape(name+" "), "files": map[string]any{"success": true, "path": "out.d",
					"files": []string{"a_b.txt", name}, "count": 2},
				"key":  map[string]any{"result": map[string]int{name: 1}},
				"hint": map[string]any{"error": "there is no file zeb.txt: did you mean " + name + "?"},
			} {
				frame := marshalBody(strings.Replace(name, as, "", 1))
				if strings.Contains(as, "%") && (place == "cursor" || place == "query") { // two layers
					continue
				}
				got := redacted(t, e, body)
				if !token.MatchString(got) {
					t.Errorf("%q in %s: %s", name, place, got)
				}
				left := token.ReplaceAllString(got, "")
				if part, n := visible(strings.ToLower(left), strings.ToLower(as)); n >= 5 && !strings.Contains(frame, part) {
					t.Errorf("%q in %s: %q is left in %q", name, place, part, left)
				}
			}
		}
	}
	for _, text := range []string{"a quarterstaff.txt", "zebulon-x-quarterstaff", "main.street", "a/b.c_d-e", "petrov_ivan"} {
		if got := redacted(t, e, text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// So does a name of one word, in any letter case, unless it is a word of English.
func TestKnownWordsAreReplacedInSlugs(t *testing.T) {
	e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
	if _, err := e.Ingester().Text(t.Context(), `[{"first_name":"Zebulon","last_name":"Quarterstaff"},{"first_name":"Zoë","last_name":"Ünalöz"},{"first_name":"Grace"}]`); err != nil {
		t.Fatal(err)
	}
	e.Ingester().Wait()
	for _, text := range []string{"a quarterstaff. Then", "grace_period", "/GRACE/"} {
		if got := redacted(t, e, text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"zebulon_quarterstaff.txt": "<NAME>_<NAME>.txt", "ZEBULON-Quarterstaff": "<NAME>-<NAME>", "quarterstaff.txt": "<NAME>.txt",
		"out/QUARTERSTAFF/a": "out/<NAME>/a",
		"ünalöz.txt":         "<NAME>.txt", "ÜNALÖZ-1": "<NAME>-1", "unaloz_1": "<NAME>_1",
		"Grace_period": "<NAME>_period",
		base64.StdEncoding.EncodeToString([]byte("workspace:///quarterstaff.txt")): "d29ya3NwYWNlOi8v<NAME>eHQ=",
	} {
		for place, form := range forms {
			got, frame := shown(redacted(t, e, form(text))), redacted(t, e, form("0_0"))
			if want := strings.ReplaceAll(frame, "0_0", want); got != want {
				t.Errorf("%q in %s: got %s, want %s", text, place, got, want)
			}
		}
	}
}

func TestKnownNumbersAreReplacedWithSeparatorsOfThousands(t *testing.T) {
	e := informed(t)
	for _, digits := range []string{"4111111111111111", "131424002", "2125550123"} {
		for name, format := range map[string]string{"comma": ",", "underscore": "_", "apostrophe": "'", "typographic": "’", "point": ".",
			"blank": " ", "narrow": "\u202f", "thin": "\u2009"} {
			text := digits
			for i := len(text) - 3; i > 0; i -= 3 {
				text = text[:i] + format + text[i:]
			}
			for place, form := range forms {
				if left := redacted(t, e, form(text)); !token.MatchString(left) || strings.Contains(left, text[:3]) {
					t.Errorf("%s in %s: %s", name, place, left)
				}
			}
		}
		for _, longer := range []string{digits + "0123456", "12" + digits, "3" + digits + "8"} {
			if got := redacted(t, e, map[string]any{"result": json.RawMessage(longer[:min(len(longer), 19)])}); strings.Contains(got, "[") {
				t.Errorf("%s: %s", longer, got)
			}
		}
	}
}

// formats are text transformations of Python's standard library and of templates.
var formats = map[string]func(v string) string{
	"textwrap.fill, narrow":  func(v string) string { return wrap(v, 5, "\n") },
	"textwrap.fill":          func(v string) string { return wrap("It says here: "+v+", and that is it.", 20, "\n") },
	"textwrap, indented":     func(v string) string { return wrap("It says here: "+v+", and that is it.", 16, "\n    > ") },
	"pprint":                 func(v string) string { return "{'k': ('" + strings.Join(after(v, ' '), "'\n       '") + "')}" },
	"pprint of bytes":        func(v string) string { return "(b'" + strings.Join(groups(v, 4), "'\n b'") + "')" },
	"no-break spaces":        func(v string) string { return strings.ReplaceAll(v, " ", "\u00a0") },
	"narrow no-break spaces": func(v string) string { return "«" + strings.ReplaceAll(v, " ", "\u202f") + "»" },
	"NBSP as repr":           func(v string) string { return "'" + strings.ReplaceAll(v, " ", `\xa0`) + "'" },
	"groups of four":         func(v string) string { return strings.Join(groups(squeezed(v), 4), " ") },
	"groups with dashes":     func(v string) string { return strings.Join(groups(squeezed(v), 4), "-") },
	"groups with NBSP":       func(v string) string { return strings.Join(groups(squeezed(v), 4), "\u00a0") },
	"two blanks":             func(v string) string { return strings.ReplaceAll(v, " ", "  ") },
	"quote":                  func(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") },
	"quote_plus":             url.QueryEscape,
	"urlencode":              func(v string) string { return url.Values{"a": {v}, "b": {"x y"}, "c": {v}}.Encode() },
	"every byte quoted":      func(v string) string { return each(v, "%%%02X") },
	"html.escape":            html.EscapeString,
	"HTML entities":          func(v string) string { return each(v, "&#%d;") },
	"&nbsp;": func(v string) string {
		return "<td>" + strings.ReplaceAll(html.EscapeString(v), " ", "&nbsp;") + "</td>"
	},
	"%C2%A0": func(v string) string { return strings.ReplaceAll(v, " ", "%C2%A0") },
}

func TestFormattedValuesAreReplaced(t *testing.T) {
	e := informed(t)
	for name, format := range formats {
		for i, v := range values {
			next := values[(i+5)%len(values)]
			texts := []string{format(v), format(v) + " " + format(next)}
			if !strings.HasPrefix(name, "groups") { // which remove the separators
				texts = append(texts, format(v+" "+next), format(v+"-"+next), format(v+next), format(v+next+values[(i+9)%len(values)]),
					format(v+"x"+next))
			}
			for _, text := range texts {
				for place, form := range forms {
					if place == "key" || place == "path" {
						continue
					}
					left := redacted(t, e, form(text))
					bare := token.ReplaceAllString(left, "")
					for _, v := range []string{v, next} {
						part, n := visible(detect.Squeeze(bare), detect.Squeeze(v))
						if n < 5 && format("") == "" {
							part, n = visible(bare, format(v))
							n -= len(format(v)) / 3
						}
						if n >= 5 {
							t.Fatalf("%s in %s: of %q %q is left in %q", name, place, text, part, left)
						}
					}
				}
			}
		}
	}
}

// visible returns the longest part of v that is in text.
func visible(text, v string) (part string, n int) {
	for i := range v {
		for j := i + n + 1; j <= len(v) && strings.Contains(text, v[i:j]); j++ {
			part, n = v[i:j], j-i
		}
	}
	return part, n
}

// wrap breaks a text at blanks, and long words anywhere.
func wrap(text string, width int, br string) string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		for line != "" && len(line)+1+len(w) > width || len(w) > width {
			if line == "" {
				line, w = w[:width], w[width:]
			}
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + w)
	}
	return strings.Join(append(lines, line), br)
}

func after(v string, sep byte) (parts []string) {
	return strings.SplitAfter(v, string(sep))
}

func groups(v string, n int) (parts []string) {
	for len(v) > n {
		parts, v = append(parts, v[:n]), v[n:]
	}
	return append(parts, v)
}

func squeezed(v string) string { return strings.NewReplacer(" ", "", "-", "").Replace(v) }

func each(v, form string) string {
	var b strings.Builder
	for i := range len(v) {
		fmt.Fprintf(&b, form, v[i])
	}
	return b.String()
}
