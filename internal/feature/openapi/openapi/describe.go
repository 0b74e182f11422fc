package openapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// responses summarizes the success responses of an operation.
type responses struct {
	accept       string
	schema       node // of the JSON; empty if there is none
	json         bool // a response is JSON
	text         bool // all responses are text
	noContent    bool // a response has no content
	maybeContent bool // a response may have undeclared content
	paged        bool // paginated with Link headers
	isList       bool // the JSON is or may be a list
}

func readResponses(ctx context.Context, d *document, method string, op node) (a responses, err error) {
	var types []string
	for _, code := range op.get("responses").names() {
		if !strings.HasPrefix(code, "2") {
			continue
		}
		n, err := d.follow(ctx, op.get("responses").get(code))
		if err != nil {
			return a, err
		}
		content := n.get("content")
		if len(content.names()) == 0 {
			a.noContent = true
			a.maybeContent = a.maybeContent || code != "204" && code != "205" && method != "head"
		}
		for _, header := range n.get("headers").names() {
			a.paged = a.paged || strings.EqualFold(header, "Link")
		}
		for _, mime := range content.names() {
			if mime = headerValue(mime); !slices.Contains(types, mime) {
				types = append(types, mime)
			}
			if isJSON(mime) && !a.json {
				a.json, a.schema = true, content.get(mime).get("schema")
			}
		}
	}
	schema := d.followOrEmpty(ctx, a.schema)
	if schema.v == nil {
		a.schema = schema // unknown
	}
	kind := schema.get("type").text()
	a.isList = a.json && (kind == "array" || kind == "" && !schema.has("properties"))
	a.text = len(types) > 0 && !slices.ContainsFunc(types, func(mime string) bool { return formOf(mime) != asText })
	a.accept = acceptHeader(types)
	return a, nil
}

// acceptHeader prefers JSON, since other types reach code as bytes or text only.
func acceptHeader(types []string) string {
	slices.SortStableFunc(types, func(x, y string) int {
		return cmp.Or(int(formOf(x))-int(formOf(y)), vendorRank(x)-vendorRank(y))
	})
	if len(types) > 0 && isJSON(types[0]) {
		return types[0]
	}
	return strings.Join(append(types, "*/*;q=0.1"), ", ")
}

const maxDescription = 2 << 10 // bytes

// definition returns the operation as a tool.
func definition(ctx context.Context, d *document, x *operation, op node, a responses) tool.Definition {
	summary := sanitize.Line(op.get("summary").text(), 300)
	about := sanitize.Text(strings.TrimSpace(op.get("description").text()), maxDescription)
	if about == summary {
		about = ""
	}
	if summary != "" && !strings.ContainsAny(summary[len(summary)-1:], ".!?") {
		summary += "." // ends the first sentence
	}
	pieces := []string{summary, about, strings.Join(x.remarks(op, a), "\n")}
	pieces = slices.DeleteFunc(pieces, func(s string) bool { return s == "" })
	return tool.Definition{
		Description: strings.Join(pieces, "\n\n"),
		Input:       x.input(&converter{ctx: ctx, doc: d, omit: "readOnly", descriptions: true}),
		Output:      a.output(&converter{ctx: ctx, doc: d, omit: "writeOnly"}),
		Hints:       methodHints(x.method),
	}
}

// methodHints derives hints from the method semantics of RFC 9110.
func methodHints(method string) tool.Hints {
	yes, no := true, false
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return tool.Hints{ReadOnly: &yes}
	case "PUT":
		return tool.Hints{ReadOnly: &no, Idempotent: &yes}
	case "DELETE":
		return tool.Hints{ReadOnly: &no, Destructive: &yes, Idempotent: &yes}
	}
	return tool.Hints{ReadOnly: &no}
}

// remarks describes how the tool differs from the document.
func (x *operation) remarks(op node, a responses) []string {
	all := []string{x.method + " " + sanitize.Line(x.path, 300)}
	if op.isTrue("deprecated") {
		all = append(all, "Deprecated.")
	}
	for _, p := range x.params {
		if p.arg != p.name {
			all = append(all, fmt.Sprintf("Argument %s is the parameter %s in the %s.", sanitize.Line(p.arg, 100),
				sanitize.Line(p.name, 100), p.in))
		}
	}
	if x.body != nil {
		all = append(all, x.body.remark())
	}
	if pages := x.pageParams(); len(pages) > 0 && x.method == "GET" {
		all = append(all, fmt.Sprintf("Results are paginated; request further pages with %s.", strings.Join(pages, ", ")))
	}
	if x.pagesArg != "" {
		all = append(all, fmt.Sprintf("%s=N follows links to further pages, up to N pages in total, and returns all items in one list.",
			x.pagesArg))
	}
	return all
}

func (x *body) remark() string {
	text := fmt.Sprintf("Argument %s is the request body, sent as %s.", x.arg, sanitize.Line(x.mime, 100))
	if x.form == asBytes {
		text += " Pass it as base64 text."
	}
	return text
}

// pageParamNames are common names of pagination parameters.
var pageParamNames = []string{"page", "cursor", "after", "before", "offset", "page_token", "pagetoken", "starting_after", "start", "skip",
	"marker",
	"next_token", "nexttoken", "continuation_token", "page[number]", "page[cursor]", "page_number", "pagenumber", "start_cursor",
	"next_cursor"}

func (x *operation) pageParams() (names []string) {
	for _, p := range x.params {
		if p.in == "query" && slices.Contains(pageParamNames, strings.ToLower(p.name)) {
			names = append(names, sanitize.Line(p.arg, 100))
		}
	}
	return names
}

// sizeLimit bounds a schema. Limits are tried in order, with decreasing depth.
type sizeLimit struct{ depth, schemas, bytes int }

var (
	inputLimits = []sizeLimit{{10, 800, 32 << 10}, {6, 800, 32 << 10}, {4, 800, 32 << 10}, {3, 800, 32 << 10}, {2, 800, 32 << 10},
		{1, 1600, 64 << 10}, {0, 20_000, 256 << 10}}
	outputLimits = []sizeLimit{{5, 160, 6 << 10}, {4, 160, 6 << 10}, {3, 160, 6 << 10}, {2, 160, 6 << 10}, {1, 160, 8 << 10}}
)

// convertWithin converts with the first limit that the schema meets; nil if it meets
// none.
func convertWithin(rooms []sizeLimit, c *converter, make func() json.RawMessage) json.RawMessage {
	for _, r := range rooms {
		c.maxDepth, c.remaining, c.bytes, c.truncated, c.active = r.depth, r.schemas, r.bytes, false, map[string]bool{}
		if raw := make(); !c.truncated && len(raw) <= r.bytes {
			return raw
		}
	}
	return nil
}

// input returns the schema of the arguments, in the order in which they are sent.
func (x *operation) input(c *converter) json.RawMessage {
	raw := convertWithin(inputLimits, c, func() json.RawMessage { return x.arguments(c) })
	if raw == nil {
		return json.RawMessage("true")
	}
	return raw
}

func (x *operation) arguments(c *converter) json.RawMessage {
	var props bytes.Buffer
	required := []string{}
	add := func(name string, needed bool, schema any) {
		if props.Len() > 0 {
			props.WriteByte(',')
		}
		props.Write(encodeJSON(name))
		props.WriteByte(':')
		props.Write(encodeJSON(schema))
		if needed {
			required = append(required, name)
		}
	}
	c.files = false
	for _, p := range x.params {
		add(p.arg, p.required, p.argument(c))
	}
	if x.body != nil {
		add(x.body.arg, x.body.required, x.body.argument(c))
	}
	if x.pagesArg != "" {
		add(x.pagesArg, false, object{"type": "integer", "minimum": 1, "maximum": maxPages,
			"description": "pages to fetch and join, 1 if not given"})
	}
	rest := ""
	if len(required) > 0 {
		rest = `,"required":` + string(encodeJSON(required))
	}
	return json.RawMessage(`{"type":"object","properties":{` + props.String() + `}` + rest + `,"additionalProperties":false}`)
}

// argument returns the schema of a parameter. A default is described but not sent,
// because some APIs reject certain combinations of parameters.
func (p param) argument(c *converter) any {
	schema, ok := c.convert(p.schema, 0).(object)
	if !ok {
		schema = object{}
	}
	delete(schema, "default")
	description, _ := schema["description"].(string)
	about := cmp.Or(sanitize.Text(strings.TrimSpace(p.description), maxSchemaText), description)
	if p.defaultValue != nil {
		if initial := string(encodeJSON(p.defaultValue)); len(initial) < 100 {
			about = strings.TrimSpace(about + " (default " + sanitize.Line(initial, 100) + ")")
		}
	}
	if about != "" {
		schema["description"] = about
	}
	return schema
}

func (x *body) argument(c *converter) any {
	var schema object
	switch x.form {
	case asText:
		schema = object{"type": "string"}
	case asBytes:
		schema = object{"type": "string", "contentEncoding": "base64", "description": base64Description}
	default:
		c.files = x.form == asMultipart
		schema, _ = c.convert(x.schema, 0).(object)
	}
	if schema == nil {
		schema = object{}
	}
	if description, _ := schema["description"].(string); description == "" && x.description != "" {
		schema["description"] = sanitize.Text(strings.TrimSpace(x.description), maxSchemaText)
	}
	return schema
}

// output returns the schema of the result, nil if it is unknown or too large.
func (a responses) output(c *converter) json.RawMessage {
	switch {
	case !a.json && a.maybeContent: // many documents omit the content
		return nil
	case !a.json && a.noContent && !a.text:
		return json.RawMessage(`{"type":"null"}`)
	case !a.json && a.text && !a.noContent:
		return json.RawMessage(`{"type":"string"}`)
	case a.schema.v == nil:
		return nil
	}
	return convertWithin(outputLimits, c, func() json.RawMessage {
		schema, ok := c.convert(a.schema, 0).(object)
		if !ok || len(schema) == 0 {
			return nil
		}
		if a.noContent {
			schema = object{"anyOf": []any{schema, object{"type": "null"}}}
		}
		return encodeJSON(schema)
	})
}
