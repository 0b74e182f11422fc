package redact_test

import (
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

// informed returns the exit of a rig that has ingested people.
func informed(t testing.TB) *redact.Exit {
	t.Helper()
	e := newRig(t, redact.Config{Mode: redact.Egress}).exit()
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
	e := newRig(t, redact.Config{Mode: redact.Egress}).exit()
	if _, err := e.Ingester().Text(t.Context(), `[{"first_name":"lovelace"},{"first_name":"success"},{"first_name":"Ann"}]`); err != nil {
		t.Fatal(err)
	}
	body := json.RawMessage(`{"success":true,"result":{"lovelace":2,"Annual":1},"output":["Ann lovelace, lovelaces","{\"lovelace\": 1}"]}`)
	want := `{"success":true,"result":{"<NAME>":2,"Annual":1},"output":["<NAME> <NAME>, lovelaces","{\"<NAME>\": 1}"]}`
	if got := shown(redacted(t, e, body)); got != want {
		t.Errorf("got %s", got)
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
				texts = append(texts, format(v+" "+next), format(v+"-"+next), format(v+next), format(v+next+values[(i+9)%len(values)]), format(v+"x"+next))
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
