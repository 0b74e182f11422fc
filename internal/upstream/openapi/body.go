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

// body is how an operation wants its request body.
type body struct {
	arg         string
	required    bool
	mime        string
	form        form
	schema      node
	description string
	fields      map[string]field // of a form: what the document says of its fields
}

// form is how a value becomes bytes.
type form int

const (
	asJSON      form = iota
	asMultipart      // multipart/form-data
	asForm           // application/x-www-form-urlencoded
	asText
	asBytes // given as base64
)

// field is how one field of a form is sent.
type field struct {
	param         // style, explode, reserved
	styled bool   // whether the document says a style
	mime   string // of a part; "" means as the value is
	file   bool   // bytes, given as base64
}

// formOf tells how a media type is written.
func formOf(mime string) form {
	switch b := mediaType(mime); {
	case isJSON(b):
		return asJSON
	case b == "application/x-www-form-urlencoded":
		return asForm
	case strings.HasPrefix(b, "multipart/"):
		return asMultipart
	case strings.HasPrefix(b, "text/") || strings.HasSuffix(b, "+xml") || slices.Contains([]string{"application/xml", "application/graphql", "application/yaml", "application/x-yaml", "application/javascript", "application/sql", "application/x-ndjson", "application/jsonl"}, b):
		return asText
	}
	return asBytes
}

// body reads what an operation takes; nil if nothing.
func (b *builder) body(ctx context.Context, op node) (*body, error) {
	n, err := b.doc.follow(ctx, op.get("requestBody"))
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
	// JSON says most; of those that say the same, the first by name.
	slices.SortStableFunc(all, func(x, y string) int { return cmp.Or(int(formOf(x))-int(formOf(y)), vendorRank(x)-vendorRank(y)) })
	media := content.get(all[0])
	x := &body{mime: headerValue(all[0]), form: formOf(all[0]), required: n.isTrue("required"), description: n.get("description").text(), schema: media.get("schema")}
	if strings.Contains(x.mime, "*") { // anything will do
		x.mime = "application/octet-stream"
		if b.doc.followOrEmpty(ctx, x.schema).has("properties") {
			x.form, x.mime = asJSON, "application/json"
		}
	}
	if x.form == asForm || x.form == asMultipart {
		x.fields, err = b.fields(ctx, x.schema, media.get("encoding"), x.form == asForm || !b.v30)
	}
	return x, err
}

// exotic puts the plain media type before those of vendors.
func vendorRank(mime string) int {
	if mediaType(mime) == "application/json" {
		return 0
	}
	return 1
}

// fields reads how those of a form are sent. Styles do not count in all forms:
// OpenAPI 3.0 has none in a multipart body.
func (b *builder) fields(ctx context.Context, schema, encoding node, styled bool) (map[string]field, error) {
	all := map[string]field{}
	b.collectFields(ctx, b.doc.followOrEmpty(ctx, schema), all, 0)
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

// collect finds the fields that are files, also in the parts of a schema.
func (b *builder) collectFields(ctx context.Context, schema node, all map[string]field, depth int) {
	if depth > 10 {
		return
	}
	props := schema.get("properties")
	for _, name := range props.names() {
		p := b.doc.followOrEmpty(ctx, props.get(name))
		if items := b.doc.followOrEmpty(ctx, p.get("items")); items.v != nil {
			p = items
		}
		all[name] = field{param: param{style: "form", explode: true}, file: isFile(p)}
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		for _, part := range schema.get(word).items() {
			b.collectFields(ctx, b.doc.followOrEmpty(ctx, part), all, depth+1)
		}
	}
}

// encode makes bytes of a value, and says of which type they are.
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
		return nil, "", fault.New(fault.Invalid, "cannot be called: argument %s: expected a text of %s, got %s", x.arg, x.mime, kindOf(v))
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

// pairs writes a form as a query is written.
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

// parts writes a form of parts.
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

// member writes a field as one part or several. Of a field with a style each pair is
// a part of text, and its media type does not count, as OpenAPI 3.1 has it.
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

// write adds a part; "" is no file name, or no media type.
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

// upload is a file as code gives it.
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

// quoted is a text inside of quotes in a header of a part, as browsers write it.
func quoteDisposition(s string) string {
	return strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A", "\x00", "%00").Replace(s)
}

// line is a header's value without what none may hold.
func headerValue(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
