package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/urlpath"
)

// pair is an encoded name and value.
type pair struct{ name, value string }

// unreserved characters are not escaped in a URL; reserved ones are kept where the
// document allows it.
const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	reserved   = ":/?#[]@!$&'()*+,;="
)

// percentEncode escapes a string for a URL. With keep, reserved characters and existing
// escapes are kept (RFC 6570).
func percentEncode(s string, keep bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case strings.IndexByte(unreserved, c) >= 0,
			keep && strings.IndexByte(reserved, c) >= 0 && c != '#' && c != '&',
			keep && c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// scalarText returns a scalar as sent. A deeper nested value is sent as JSON.
func scalarText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	return string(encodeJSON(v))
}

// encodeJSON returns a value as JSON without HTML escapes.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // it was JSON before
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// valuePieces returns the parts of a value: the items of a list, or alternating names
// and values of an object.
func valuePieces(v any, write func(string) string) []string {
	switch v := v.(type) {
	case []any:
		all := make([]string, len(v))
		for i, item := range v {
			all[i] = write(scalarText(item))
		}
		return all
	case schema.Object:
		var all []string
		for _, m := range v {
			all = append(all, write(m.Name), write(scalarText(m.Value)))
		}
		return all
	}
	return []string{write(scalarText(v))}
}

// memberPairs returns the members of an object as name=value.
func memberPairs(v schema.Object, write func(string) string) []string {
	var all []string
	for _, m := range v {
		all = append(all, write(m.Name)+"="+write(scalarText(m.Value)))
	}
	return all
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case schema.Object:
		return len(v) == 0
	}
	return false
}

// path encodes a value for a path.
func (p param) path(v any) (string, error) {
	write := func(s string) string { return percentEncode(s, false) }
	if p.mime != "" {
		return p.nonEmpty(write(contentText(p.mime, v)))
	}
	m, isObject := v.(schema.Object)
	prefix, join := "", ","
	switch p.style {
	case "label":
		prefix = "."
		if p.explode {
			join = "."
		}
	case "matrix":
		return p.matrix(v), nil
	}
	pieces := valuePieces(v, write)
	if isObject && p.explode {
		pieces = memberPairs(m, write)
	}
	return p.nonEmpty(prefix + strings.Join(pieces, join))
}

// nonEmpty rejects an empty value, which would change the path.
func (p param) nonEmpty(text string) (string, error) {
	if text == "" {
		return "", fault.New(fault.Invalid, "cannot be called: argument %s is part of the path and must not be empty", p.arg)
	}
	return text, nil
}

func (p param) matrix(v any) string {
	write := func(s string) string { return percentEncode(s, false) }
	name := ";" + write(p.name)
	list, isList := v.([]any)
	m, isObject := v.(schema.Object)
	var b strings.Builder
	switch {
	case isList && p.explode:
		for _, item := range list {
			b.WriteString(name + "=" + write(scalarText(item)))
		}
		return b.String()
	case isObject && p.explode:
		for _, one := range memberPairs(m, write) {
			b.WriteString(";" + one)
		}
		return b.String()
	case scalarText(v) == "":
		return name
	}
	return name + "=" + strings.Join(valuePieces(v, write), ",")
}

// delimiters separate the parts of a value that is one pair.
var delimiters = map[string]string{"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}

// query encodes a value as pairs for a query string.
func (p param) query(v any) []pair {
	name := func(s string) string { return percentEncode(s, false) }
	value := func(s string) string { return percentEncode(s, p.reserved) }
	if p.mime != "" {
		return []pair{{name(p.name), value(contentText(p.mime, v))}}
	}
	return p.pairs(v, name, value)
}

// pairs encodes a value in its style. name and value encode names and values. A
// delimiter that is not allowed in a URL is encoded like a name; a comma is not encoded,
// which distinguishes it from commas in values.
func (p param) pairs(v any, name, value func(string) string) (all []pair) {
	if isEmpty(v) {
		return nil
	}
	list, isList := v.([]any)
	m, isObject := v.(schema.Object)
	switch {
	case isObject && p.style == "deepObject":
		return deepObject(name(p.name), v, name, value)
	case isObject && p.explode:
		for _, one := range m {
			all = append(all, pair{name(one.Name), value(scalarText(one.Value))})
		}
		return all
	case isList && (p.explode || p.style == "deepObject"):
		for _, item := range list {
			all = append(all, pair{name(p.name), value(scalarText(item))})
		}
		return all
	}
	between := delimiters[p.style]
	if between != "," {
		between = name(between)
	}
	return []pair{{name(p.name), strings.Join(valuePieces(v, value), between)}}
}

// deepObject encodes nested objects. OpenAPI leaves nesting undefined; this is the form
// that most servers parse: name[a][b]=…, and repeated names for a list.
func deepObject(at string, v any, name, value func(string) string) (all []pair) {
	switch v := v.(type) {
	case schema.Object:
		for _, m := range v {
			all = append(all, deepObject(at+name("[")+name(m.Name)+name("]"), m.Value, name, value)...)
		}
		return all
	case []any:
		for _, item := range v {
			all = append(all, deepObject(at, item, name, value)...)
		}
		return all
	case nil:
		return nil
	}
	return []pair{{at, value(scalarText(v))}}
}

// header encodes a value for a header.
func (p param) header(v any) (string, error) {
	same := func(s string) string { return s }
	text := ""
	m, isObject := v.(schema.Object)
	switch {
	case p.mime != "":
		text = contentText(p.mime, v)
	case isObject && p.explode:
		text = strings.Join(memberPairs(m, same), ",")
	default:
		text = strings.Join(valuePieces(v, same), ",")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", fault.New(fault.Invalid, "cannot be called: argument %s: a header must not contain line breaks or control characters",
			p.arg)
	}
	return text, nil
}

// cookie encodes a value as pairs, like a query, as OpenAPI defines.
func (p param) cookie(v any) []pair { return p.query(v) }

// contentText returns a value in a media type.
func contentText(mime string, v any) string {
	if s, ok := v.(string); ok && !isJSON(mime) {
		return s
	}
	return string(encodeJSON(v))
}

// isJSON reports whether a media type is JSON or based on it.
func isJSON(mime string) bool {
	mime = mediaType(mime)
	return mime == "application/json" || mime == "text/json" || strings.HasSuffix(mime, "+json")
}

// mediaType returns a media type without parameters, in lower case.
func mediaType(mime string) string {
	mime, _, _ = strings.Cut(mime, ";")
	return strings.ToLower(strings.TrimSpace(mime))
}

// joinPairs joins pairs with a separator.
func joinPairs(pairs []pair, between string) string {
	var all []string
	for _, p := range pairs {
		all = append(all, p.name+"="+p.value)
	}
	return strings.Join(all, between)
}

// splitPath splits a path of a document. Some documents distinguish operations of one
// path by a query, which is sent, or a fragment, which is not.
func splitPath(path string) (segments, query string) {
	depth := 0
	for i, r := range path {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case depth > 0:
		case r == '#':
			return path[:i], ""
		case r == '?':
			query, _, _ = strings.Cut(path[i+1:], "#")
			return path[:i], query
		}
	}
	return path, ""
}

// expandPath substitutes values into a path. It returns an error for values that produce
// . or .. segments.
func expandPath(path string, values map[string]string) (string, error) {
	made := fillTemplate(path, values, func(piece string) string { return strings.ReplaceAll(percentEncode(piece, true), "?", "%3F") })
	if segment := urlpath.DotSegment(made); segment != "" {
		return "", fault.New(fault.Invalid, "cannot be called: the arguments produce a path with the segment %q", segment)
	}
	return made, nil
}

// fillTemplate substitutes escaped values into a template and escapes the rest of it.
func fillTemplate(text string, values map[string]string, escape func(string) string) string {
	var b strings.Builder
	for {
		before, rest, _ := strings.Cut(text, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString(escape(text))
			return b.String()
		}
		b.WriteString(escape(before))
		b.WriteString(values[name])
		text = after
	}
}
