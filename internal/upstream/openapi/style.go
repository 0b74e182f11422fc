package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"sort"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
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
func quote(s string, keep bool) string {
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
func word(v any) string {
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
	return string(text(v))
}

// text is a value as JSON, without the escapes that HTML wants.
func text(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // it was JSON before
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// keys of an object, sorted: the same arguments make the same request.
func keys(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// words are the pieces of a value, in order: those of a list, or names and values
// of an object in turn.
func words(v any, write func(string) string) []string {
	switch v := v.(type) {
	case []any:
		all := make([]string, len(v))
		for i, item := range v {
			all[i] = write(word(item))
		}
		return all
	case map[string]any:
		var all []string
		for _, name := range keys(v) {
			all = append(all, write(name), write(word(v[name])))
		}
		return all
	}
	return []string{write(word(v))}
}

// members are an object as name=value.
func members(v map[string]any, write func(string) string) []string {
	var all []string
	for _, name := range keys(v) {
		all = append(all, write(name)+"="+write(word(v[name])))
	}
	return all
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// path writes a value into a path.
func (p param) path(v any) (string, error) {
	write := func(s string) string { return quote(s, false) }
	if p.mime != "" {
		return p.whole(write(written(p.mime, v)))
	}
	m, isObject := v.(map[string]any)
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
	pieces := words(v, write)
	if isObject && p.explode {
		pieces = members(m, write)
	}
	return p.whole(prefix + strings.Join(pieces, join))
}

// whole refuses nothing at all, which would lead to another path.
func (p param) whole(text string) (string, error) {
	if text == "" {
		return "", fault.New(fault.Invalid, "cannot be called: argument %s is empty, and stands in the path", p.arg)
	}
	return text, nil
}

func (p param) matrix(v any) string {
	write := func(s string) string { return quote(s, false) }
	name := ";" + write(p.name)
	list, isList := v.([]any)
	m, isObject := v.(map[string]any)
	var b strings.Builder
	switch {
	case isList && p.explode:
		for _, item := range list {
			b.WriteString(name + "=" + write(word(item)))
		}
		return b.String()
	case isObject && p.explode:
		for _, one := range members(m, write) {
			b.WriteString(";" + one)
		}
		return b.String()
	case word(v) == "":
		return name
	}
	return name + "=" + strings.Join(words(v, write), ",")
}

// delimiters stand between the pieces of a value that is one pair.
var delimiters = map[string]string{"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

// query writes a value as pairs, ready for a URL.
func (p param) query(v any) []pair {
	write := func(s string) string { return quote(s, p.reserved) }
	name := quote(p.name, false)
	if p.mime != "" {
		return []pair{{name, write(written(p.mime, v))}}
	}
	if empty(v) {
		return nil
	}
	list, isList := v.([]any)
	m, isObject := v.(map[string]any)
	switch {
	case isObject && p.style == "deepObject":
		return deep(name, v, write)
	case isObject && p.explode:
		var all []pair
		for _, key := range keys(m) {
			all = append(all, pair{quote(key, false), write(word(m[key]))})
		}
		return all
	case isList && (p.explode || p.style == "deepObject"):
		var all []pair
		for _, item := range list {
			all = append(all, pair{name, write(word(item))})
		}
		return all
	}
	return []pair{{name, strings.Join(words(v, write), delimiters[p.style])}}
}

// deep writes objects within objects; OpenAPI leaves open how, and this is how
// most servers read it: name[a][b]=…, and a list as the same name again.
func deep(name string, v any, write func(string) string) (all []pair) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range keys(v) {
			all = append(all, deep(name+"%5B"+quote(key, false)+"%5D", v[key], write)...)
		}
		return all
	case []any:
		for _, item := range v {
			all = append(all, deep(name, item, write)...)
		}
		return all
	case nil:
		return nil
	}
	return []pair{{name, write(word(v))}}
}

// header writes a value as that of a header.
func (p param) header(v any) (string, error) {
	same := func(s string) string { return s }
	text := ""
	m, isObject := v.(map[string]any)
	switch {
	case p.mime != "":
		text = written(p.mime, v)
	case isObject && p.explode:
		text = strings.Join(members(m, same), ",")
	default:
		text = strings.Join(words(v, same), ",")
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
func written(mime string, v any) string {
	if s, ok := v.(string); ok && !isJSON(mime) {
		return s
	}
	return string(text(v))
}

// isJSON tells whether a media type is JSON, or something written in it.
func isJSON(mime string) bool {
	mime = bare(mime)
	return mime == "application/json" || mime == "text/json" || strings.HasSuffix(mime, "+json")
}

// bare is a media type without its parameters.
func bare(mime string) string {
	mime, _, _ = strings.Cut(mime, ";")
	return strings.ToLower(strings.TrimSpace(mime))
}

// join writes pairs with something between them.
func join(pairs []pair, between string) string {
	var all []string
	for _, p := range pairs {
		all = append(all, p.name+"="+p.value)
	}
	return strings.Join(all, between)
}

// expand puts values into a path. What it leads to is what the document says:
// no value makes a step of it that goes up.
func expand(path string, values map[string]string) (string, error) {
	var b strings.Builder
	for {
		before, rest, _ := strings.Cut(path, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString(escaped(path))
			break
		}
		b.WriteString(escaped(before))
		b.WriteString(values[name])
		path = after
	}
	meant, _ := url.PathUnescape(b.String()) // a server may take the steps after it decoded them
	for step := range strings.FieldsFuncSeq(meant, func(r rune) bool { return r == '/' || r == '\\' }) {
		if step == "." || step == ".." {
			return "", fault.New(fault.Invalid, "cannot be called: the arguments make a path with the step %q, which leads elsewhere", step)
		}
	}
	return b.String(), nil
}

// escaped is a piece of a document's path as it stands in a URL.
func escaped(piece string) string { return strings.ReplaceAll(quote(piece, true), "?", "%3F") }
