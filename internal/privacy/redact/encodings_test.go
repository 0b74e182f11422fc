package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// encodings are those of honest code, for both directions: to a model and to a server.
var encodings = map[string]func(v string) string{
	"as it is":        func(v string) string { return v },
	"in a sentence":   func(v string) string { return "It is " + v + ", he said." },
	"quote":           func(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") },
	"urlencode":       func(v string) string { return url.Values{"a": {v}, "b": {"x y"}}.Encode() },
	"every byte":      func(v string) string { return each(v, "%%%02X") },
	"URL":             func(v string) string { return "https://example.com/find?q=" + url.QueryEscape(v) + "&n=1" },
	"html.escape":     func(v string) string { return "<p>" + html.EscapeString(v) + "</p>" },
	"HTML entities":   func(v string) string { return each(v, "&#%d;") },
	"JSON":            func(v string) string { return marshalBody(map[string]string{"note": v}) },
	"JSON in JSON":    func(v string) string { return marshalBody(map[string]string{"note": marshalBody([]string{v})}) },
	"JSON escapes":    func(v string) string { return `{"note":"` + each(v, `\u%04x`) + `"}` },
	"repr of escapes": func(v string) string { return each(v, `\x%02x`) },
	"base64":          func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
	"base64 of text":  func(v string) string { return base64.URLEncoding.EncodeToString([]byte("to: " + v + "\n")) },
	"Basic":           func(v string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(v+":secret")) },
	"hex":             func(v string) string { return hex.EncodeToString([]byte(v)) },
	"hex of a list":   func(v string) string { return strings.Join(groups(hex.EncodeToString([]byte(v)), 2), ":") },
	"UTF-16 base64": func(v string) string {
		u, _ := encoded.UnicodeNamed("utf-16-le")
		b, _ := u.Encode("\ufeff, " + v + ", that is all")
		return base64.StdEncoding.EncodeToString(b)
	},
	"wrapped":        func(v string) string { return wrap("It says here: "+v+", and that is it.", 16, "\n    > ") },
	"as a file name": func(v string) string { return "out/" + strings.NewReplacer(" ", "_").Replace(v) + ".txt" },
	"thousands":      thousands,
	"underscores":    func(v string) string { return strings.NewReplacer(", ", ", ", ",", "_").Replace(thousands(v)) },
}

// thousands separates thousands in a value of digits.
func thousands(v string) string {
	if digits := squeezed(v); strings.Trim(digits, "0123456789") == "" {
		v = digits
		for i := len(v) - 3; i > 0; i -= 3 {
			v = v[:i] + "," + v[i:]
		}
	}
	return v
}

func TestBothDirectionsDecodeTheSame(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress, Flows: []redact.Flow{{To: "web.*", Decision: redact.Deny}}})
	e := r.gate()
	if _, err := e.Ingester().Text(t.Context(), people); err != nil {
		t.Fatal(err)
	}
	e.Ingester().Wait()
	ref := tool.Ref{Server: "web", Tool: "post"}
	for name, put := range encodings {
		for _, v := range values {
			text := put(v)
			if left := redacted(t, e, text); !token.MatchString(left) {
				t.Errorf("%s of %q: a model sees %s", name, v, left)
			}
			for place, args := range map[string]any{
				"argument": map[string]any{"n": 1, "text": text}, "object": map[string]any{"text": map[string]any{"a": []any{1, text}}},
				"key":    map[string]any{"text": map[string]any{text: 1}},
				"JSON":   map[string]any{"text": marshalBody(map[string]string{"inner": text})},
				"pieces": map[string]any{"text": []string{text[:len(text)/2], text[len(text)/2:]}},
			} {
				if place == "pieces" && text != v {
					continue
				}
				r.crossings = nil
				got, err := e.Restorer().Args(t.Context(), ref, json.RawMessage(marshalBody(args)))
				if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Message(err), `"text"`) {
					t.Errorf("%s of %q in %s: a server gets %s, %v", name, v, place, got, err)
				} else if len(r.crossings) != 1 || !r.crossings[0].Denied || r.crossings[0].Destination != "web.post" {
					t.Errorf("%s of %q in %s: recorded %+v", name, v, place, r.crossings)
				}
			}
		}
	}
	for _, args := range []string{`{"text":"nothing of note","n":12345678,"list":["a","b"],"data":"QUJDREVGR0hJSktM"}`, `{}`, `[1]`,
		`"x"`} {
		if got, err := e.Restorer().Args(t.Context(), ref, json.RawMessage(args)); err != nil || string(got) != args {
			t.Errorf("%s became %s, %v", args, got, err)
		}
	}
}

func TestTextsAndURIsAreArguments(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress, Flows: []redact.Flow{{To: "web.*", Decision: redact.Deny}}})
	e := r.gate()
	seen := redacted(t, e, map[string]any{"mail": "ada@example.com", "ssn": json.Number("131424002")})
	var tokens map[string]string
	if err := json.Unmarshal([]byte(seen), &tokens); err != nil {
		t.Fatal(err)
	}
	crm, web := tool.Ref{Server: "crm", Tool: "prompts/get"}, tool.Ref{Server: "web", Tool: "resources/read"}
	got, err := e.Restorer().Texts(t.Context(), crm, map[string]string{"to": "<" + tokens["mail"] + ">", "ssn": tokens["ssn"], "n": "1"})
	if err != nil || got["to"] != "<ada@example.com>" || got["ssn"] != "131424002" || got["n"] != "1" {
		t.Error(got, err)
	}
	escaped := strings.NewReplacer("[", "%5B", "]", "%5d").Replace("mem://" + tokens["mail"] + "/a%20b")
	for _, uri := range []string{escaped, "mem://" + tokens["mail"] + "/a%20b"} {
		if got, err := e.Restorer().URI(t.Context(), crm, uri); err != nil || got != "mem://ada@example.com/a%20b" {
			t.Error(got, err)
		}
		if got, err := e.Restorer().URI(t.Context(), web, uri); fault.KindOf(err) != fault.Denied {
			t.Error(got, err)
		}
	}
	if got, err := e.Restorer().URI(t.Context(), web, "mem://%5Bx%5D"); err != nil || got != "mem://%5Bx%5D" {
		t.Error(got, err)
	}
	r.crossings = nil
	if got, err := e.Restorer().Match(t.Context(), tokens["mail"]); err != nil || got != "ada@example.com" || r.crossings != nil {
		t.Error(got, err, r.crossings)
	}
}
