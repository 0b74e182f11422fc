package network

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/urlpath"
)

// otherMethod returns the parameter or field of a request from which frameworks such as Rails,
// Laravel and Symfony read another method than that of the request; "" if there is none.
func otherMethod(u *url.URL, h http.Header, body []byte) string {
	if name := methodPair(u.RawQuery); name != "" {
		return name
	}
	switch kind := strings.ToLower(h.Get("Content-Type")); {
	case strings.Contains(kind, "multipart"):
		return methodPart(body)
	case strings.Contains(kind, "json"):
		return methodKey(body)
	case kind == "" || strings.Contains(kind, "urlencoded"):
		return methodPair(string(body))
	}
	return ""
}

// namesMethod reports whether a parameter is one of those. PHP ignores spaces before a name, and
// reads other characters as "_".
func namesMethod(name string) bool {
	name = strings.TrimLeft(name, " \t\r\n")
	end := strings.IndexAny(name, "[\x00")
	if end > 0 {
		name = name[:end]
	}
	switch strings.ToLower(strings.NewReplacer(".", "_", " ", "_", "-", "_", "[", "_").Replace(name)) {
	case "_method", "_httpmethod", "_http_method", "http_method_override", "x_http_method", "x_http_method_override", "x_method_override":
		return true
	}
	return false
}

// methodPair returns such a name in a query or form. Some servers also end a pair at a semicolon.
func methodPair(form string) string {
	for pair := range strings.FieldsFuncSeq(form, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if len(name) < 100 && namesMethod(urlpath.Decode(strings.ReplaceAll(name, "+", " "))) {
			return "_method"
		}
	}
	return ""
}

// fieldName finds the name of a field in the header of a part: name=x, name="x", name*=utf-8”x (RFC 5987)
// or the beginning of name*0=x (RFC 2231).
var fieldName = regexp.MustCompile(`(?i)[;\s]name(\*[0-9]+)?\*?\s*=\s*(?:[\w-]+'[\w-]*'|["'])?([^"';\r\n]*)`)

// methodPart returns such a name of a part of a multipart form.
func methodPart(body []byte) string {
	const header = "content-disposition:"
	for lower := bytes.ToLower(body); ; {
		i := bytes.Index(lower, []byte(header))
		if i < 0 {
			return ""
		}
		lower = lower[i+len(header):]
		part := lower[:min(len(lower), 4096)]
		for _, end := range []string{"\r\n\r\n", "\n\n"} {
			part, _, _ = bytes.Cut(part, []byte(end))
		}
		for _, m := range fieldName.FindAllSubmatch(part, -1) {
			if len(m[1]) > 0 || namesMethod(urlpath.Decode(string(m[2]))) {
				return "_method"
			}
		}
	}
}

// methodKey returns such a key of a JSON object.
func methodKey(body []byte) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	for name := range object {
		if namesMethod(name) {
			return "_method"
		}
	}
	return ""
}
