package openapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// body describes the request body of an operation.
type body struct {
	arg         string
	required    bool
	mime        string
	form        form
	schema      node
	description string
	fields      map[string]field // of a form
}

// form is an encoding of a body.
type form int

const (
	asJSON      form = iota
	asMultipart      // multipart/form-data
	asForm           // application/x-www-form-urlencoded
	asText
	asBytes // argument is base64
)

// field describes one field of a form.
type field struct {
	param         // style, explode, reserved
	styled bool   // the document defines a style
	mime   string // media type of a part; "" means by the type of the value
	file   bool   // a file; the argument is base64
}

// formOf returns the encoding for a media type.
func formOf(mime string) form {
	switch b := mediaType(mime); {
	case isJSON(b):
		return asJSON
	case b == "application/x-www-form-urlencoded":
		return asForm
	case strings.HasPrefix(b, "multipart/"):
		return asMultipart
	case strings.HasPrefix(b, "text/") || strings.HasSuffix(b, "+xml") ||
		slices.Contains([]string{"application/xml", "application/graphql", "application/yaml", "application/x-yaml",
			"application/javascript", "application/sql", "application/x-ndjson", "application/jsonl"}, b):
		return asText
	}
	return asBytes
}

// readBody reads the request body of an operation; nil if it has none.
func readBody(ctx context.Context, d *document, op node) (*body, error) {
	n, err := d.follow(ctx, op.get("requestBody"))
	if n.v == nil || err != nil {
		return nil, err
	}
	if err := n.requireObject("a request body"); err != nil {
		return nil, err
	}
	content := n.get("content")
	all := content.names()
	if len(all) == 0 {
		return nil, nil
	}
	// JSON expresses most; of equal encodings, the first by name is used.
	slices.SortStableFunc(all, func(x, y string) int { return cmp.Or(int(formOf(x))-int(formOf(y)), vendorRank(x)-vendorRank(y)) })
	media := content.get(all[0])
	x := &body{mime: headerValue(all[0]), form: formOf(all[0]), required: n.isTrue("required"), description: n.get("description").text(),
		schema: media.get("schema")}
	if strings.Contains(x.mime, "*") { // any type is accepted
		x.mime = "application/octet-stream"
		if d.followOrEmpty(ctx, x.schema).has("properties") {
			x.form, x.mime = asJSON, "application/json"
		}
	}
	if x.form == asForm || x.form == asMultipart {
		x.fields, err = readFields(ctx, d, x.schema, media.get("encoding"), x.form == asForm || !d.v30)
	}
	return x, err
}

// vendorRank sorts application/json before vendor types.
func vendorRank(mime string) int {
	if mediaType(mime) == "application/json" {
		return 0
	}
	return 1
}

// readFields reads the fields of a form. styled enables styles, which OpenAPI 3.0 does not
// define for multipart bodies.
func readFields(ctx context.Context, d *document, schema, encoding node, styled bool) (map[string]field, error) {
	all := map[string]field{}
	collectFields(ctx, d, d.followOrEmpty(ctx, schema), all, 0)
	for _, name := range encoding.names() {
		e := encoding.get(name)
		f := all[name]
		f.styled = styled && (e.has("style") || e.has("explode") || e.has("allowReserved"))
		f.style = cmp.Or(e.get("style").text(), "form")
		f.explode, f.reserved = f.style == "form", e.isTrue("allowReserved")
		if e.has("explode") {
			f.explode = e.isTrue("explode")
		}
		f.mime, _, _ = strings.Cut(e.get("contentType").text(), ",")
		if !slices.Contains(styles["query"], f.style) {
			return nil, e.errorf("expected one of %s, got %.40q", strings.Join(styles["query"], ", "), f.style)
		}
		all[name] = f
	}
	return all, nil
}

// collectFields collects the fields of a schema and its parts, and marks files.
func collectFields(ctx context.Context, d *document, schema node, all map[string]field, depth int) {
	if depth > 10 {
		return
	}
	props := schema.get("properties")
	for _, name := range props.names() {
		p := d.followOrEmpty(ctx, props.get(name))
		if items := d.followOrEmpty(ctx, p.get("items")); items.v != nil {
			p = items
		}
		all[name] = field{param: param{style: "form", explode: true}, file: isFile(p)}
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		for _, part := range schema.get(word).items() {
			collectFields(ctx, d, d.followOrEmpty(ctx, part), all, depth+1)
		}
	}
}

// encode encodes a value and returns its media type.
func (x *body) encode(v any) (data []byte, mime string, err error) {
	switch x.form {
	case asForm:
		data, err = x.pairs(v)
		return data, x.mime, err
	case asMultipart:
		return x.parts(v)
	case asText:
		if s, ok := v.(string); ok {
			return []byte(s), x.mime, nil
		}
		return nil, "", fault.New(fault.Invalid, "cannot be called: argument %s: expected a string of type %s, got %s", x.arg, x.mime,
			kindOf(v))
	case asBytes:
		data, err = decodeBase64(x.arg, v)
		return data, x.mime, err
	}
	return encodeJSON(v), x.mime, nil
}

func decodeBase64(arg string, v any) ([]byte, error) {
	s, ok := v.(string)
	data, err := base64.StdEncoding.DecodeString(s)
	if !ok || err != nil {
		return nil, fault.New(fault.Invalid, "cannot be called: argument %s: expected bytes as base64 text", arg).
			WithHint("in Python: base64.b64encode(data).decode()")
	}
	return data, nil
}

func (x *body) object(v any) (schema.Object, error) {
	m, ok := v.(schema.Object)
	if !ok {
		return nil, fault.New(fault.Invalid, "cannot be called: argument %s: expected an object of fields, got %s", x.arg, kindOf(v))
	}
	return m, nil
}

func (x *body) field(name string) field {
	if f, ok := x.fields[name]; ok {
		return f
	}
	return field{param: param{style: "form", explode: true}}
}

// pairs encodes a URL-encoded form.
func (x *body) pairs(v any) ([]byte, error) {
	m, err := x.object(v)
	if err != nil {
		return nil, err
	}
	var all []pair
	for _, one := range m {
		f := x.field(one.Name)
		f.param.name = one.Name
		value := one.Value
		if _, nested := value.(schema.Object); nested && !f.styled || isJSON(f.mime) && !f.styled {
			value = string(encodeJSON(value))
		}
		all = append(all, f.param.query(value)...)
	}
	return []byte(joinPairs(all, "&")), nil
}

// parts encodes a multipart form.
func (x *body) parts(v any) ([]byte, string, error) {
	m, err := x.object(v)
	if err != nil {
		return nil, "", err
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, one := range m {
		if err := x.writeField(w, one); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), mediaType(x.mime) + "; boundary=" + w.Boundary(), nil
}

// writeField writes a field as one or more parts. A field with a style becomes text
// parts, and its media type is ignored, as OpenAPI 3.1 defines.
func (x *body) writeField(w *multipart.Writer, one schema.Member) error {
	f := x.field(one.Name)
	if f.styled && !f.file {
		f.param.name = one.Name
		same := func(s string) string { return s }
		for _, p := range f.param.pairs(one.Value, same, same) {
			if err := addPart(w, p.name, "", "", []byte(p.value)); err != nil {
				return err
			}
		}
		return nil
	}
	list, ok := one.Value.([]any)
	if !ok || isJSON(f.mime) {
		list = []any{one.Value}
	}
	for _, item := range list {
		if err := x.writePart(w, f, one.Name, item); err != nil {
			return err
		}
	}
	return nil
}

func (x *body) writePart(w *multipart.Writer, f field, name string, v any) error {
	if v == nil {
		return nil
	}
	data, mime := []byte(scalarText(v)), f.mime
	_, nested := v.(schema.Object)
	switch {
	case f.file:
		given := upload{filename: name, mime: cmp.Or(f.mime, "application/octet-stream")}
		if err := given.read(x.arg+"."+name, v); err != nil {
			return err
		}
		return addPart(w, name, given.filename, given.mime, given.data)
	case isJSON(mime):
		data = encodeJSON(v)
	case nested && mime == "":
		mime = "application/json"
	}
	return addPart(w, name, "", mime, data)
}

// addPart adds a part; an empty file name or media type is omitted.
func addPart(w *multipart.Writer, name, file, mime string, data []byte) error {
	h := textproto.MIMEHeader{}
	disposition := fmt.Sprintf(`form-data; name="%s"`, quoteDisposition(name))
	if file != "" {
		disposition += fmt.Sprintf(`; filename="%s"`, quoteDisposition(file))
	}
	h.Set("Content-Disposition", disposition)
	if mime != "" {
		h.Set("Content-Type", headerValue(mime))
	}
	to, err := w.CreatePart(h)
	if err == nil {
		_, err = to.Write(data)
	}
	return err
}

// upload is a file argument.
type upload struct {
	data           []byte
	filename, mime string
}

func (u *upload) read(arg string, v any) (err error) {
	m, ok := v.(schema.Object)
	if !ok {
		u.data, err = decodeBase64(arg, v)
		return err
	}
	if name, ok := m.Get("filename").(string); ok && name != "" {
		u.filename = name
	}
	if mime, ok := m.Get("content_type").(string); ok && mime != "" {
		u.mime = mime
	}
	u.data, err = decodeBase64(arg+".content", m.Get("content"))
	return err
}

// quoteDisposition escapes a quoted string in Content-Disposition as browsers do.
func quoteDisposition(s string) string {
	return strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A", "\x00", "%00").Replace(s)
}

// headerValue removes control characters from a header value.
func headerValue(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
