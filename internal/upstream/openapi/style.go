package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// pair is a name and a value as they are sent.
type pair struct{ name, value string }

// unreserved are what stands in a URL as it is; reserved what may, where the
// document allows it.
const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	reserved   = ":/?#[]@!$&'()*+,;="
)

// quote writes a text for a URL. A percent sign that begins an escape stays one
// where reserved characters do, as RFC 6570 has it.
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

// word is a value that is no list and no object, as it is sent. Something nested
// deeper than a style can say is sent as its JSON.
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

// text is a value as JSON, without the escapes that HTML wants.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // it was JSON before
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// words are the pieces of a value, in order: those of a list, or names and values
// of an object in turn.
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

// members are an object as name=value.
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

// path writes a value into a path.
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

// whole refuses nothing at all, which would lead to another path.
func (p param) nonEmpty(text string) (string, error) {
	if text == "" {
		return "", fault.New(fault.Invalid, "cannot be called: argument %s is empty, and stands in the path", p.arg)
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

// delimiters stand between the pieces of a value that is one pair.
var delimiters = map[string]string{"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}

// query writes a value as pairs, ready for a URL.
func (p param) query(v any) []pair {
	name := func(s string) string { return percentEncode(s, false) }
	value := func(s string) string { return percentEncode(s, p.reserved) }
	if p.mime != "" {
		return []pair{{name(p.name), value(contentText(p.mime, v))}}
	}
	return p.pairs(v, name, value)
}

// pairs writes a value in its style. Names and values are each written by a
// function; a delimiter that a URL cannot hold is written as a name is, and a comma,
// which tells pieces apart from commas in them, as it is.
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

// deep writes objects within objects; OpenAPI leaves open how, and this is how
// most servers read it: name[a][b]=…, and a list as the same name again.
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

// header writes a value as that of a header.
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
		return "", fault.New(fault.Invalid, "cannot be called: argument %s: a header has no line breaks and no control characters", p.arg)
	}
	return text, nil
}

// cookie writes a value as pairs: those of a query, which is what OpenAPI says of
// the style.
func (p param) cookie(v any) []pair { return p.query(v) }

// written is a value as a text of some media type.
func contentText(mime string, v any) string {
	if s, ok := v.(string); ok && !isJSON(mime) {
		return s
	}
	return string(encodeJSON(v))
}

// isJSON tells whether a media type is JSON, or something written in it.
func isJSON(mime string) bool {
	mime = mediaType(mime)
	return mime == "application/json" || mime == "text/json" || strings.HasSuffix(mime, "+json")
}

// bare is a media type without its parameters.
func mediaType(mime string) string {
	mime, _, _ = strings.Cut(mime, ";")
	return strings.ToLower(strings.TrimSpace(mime))
}

// join writes pairs with something between them.
func joinPairs(pairs []pair, between string) string {
	var all []string
	for _, p := range pairs {
		all = append(all, p.name+"="+p.value)
	}
	return strings.Join(all, between)
}

// template takes a path of a document apart. Some documents tell operations of one
// path apart by a query, which is sent, or by a fragment, which is not.
func splitPath(path string) (steps, query string) {
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

// expand puts values into a path. What it leads to is what the document says:
// no value makes a step of it that goes up.
func expandPath(path string, values map[string]string) (string, error) {
	made := fillTemplate(path, values, func(piece string) string { return strings.ReplaceAll(percentEncode(piece, true), "?", "%3F") })
	meant, _ := url.PathUnescape(made) // a server may take the steps after it decoded them
	for step := range strings.FieldsFuncSeq(meant, func(r rune) bool { return r == '/' || r == '\\' }) {
		if step == "." || step == ".." {
			return "", fault.New(fault.Invalid, "cannot be called: the arguments make a path with the step %q, which leads elsewhere", step)
		}
	}
	return made, nil
}

// fill puts values, which are escaped, into a text with placeholders, whose other
// pieces escape writes.
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
