package openapi

import (
	"context"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// param is one parameter of an operation.
type param struct {
	arg          string // argument name
	name         string // parameter name
	in           string // path, query, header or cookie
	style        string
	explode      bool
	reserved     bool   // reserved characters are not escaped
	mime         string // media type of a parameter with content; "" for one with a style
	required     bool
	schema       node // empty if it has none
	description  string
	defaultValue any // default in the document; nil if none
}

// styles lists the styles of each location; the first is the default.
var styles = map[string][]string{
	"path":   {"simple", "label", "matrix"},
	"query":  {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
	"header": {"simple"},
	"cookie": {"form"},
}

// paramOrder is the order of an operation's parameters by location.
var paramOrder = []string{"path", "query", "header", "cookie"}

// reservedHeaders cannot be set by arguments: the first three by the OpenAPI
// specification, the others because they belong to the connection.
var reservedHeaders = []string{
	"Accept", "Content-Type", "Authorization", "Host", "Content-Length", "Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer",
	"Cookie", "Expect", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "User-Agent", "Accept-Encoding",
}

// params reads the parameters of an operation and its path; those of the operation take
// precedence.
func (b *builder) params(ctx context.Context, path string, item, op node) ([]param, error) {
	var all []param
	for _, list := range []node{item.get("parameters"), op.get("parameters")} {
		if list.v != nil && kindOf(list.v) != "a list" {
			return nil, list.errorf("expected a list of parameters, got %s", kindOf(list.v))
		}
		for _, n := range list.items() {
			p, err := readParam(ctx, b.doc, n)
			if err != nil {
				return nil, err
			}
			all = slices.DeleteFunc(all, func(o param) bool { return o.name == p.name && o.in == p.in })
			if !b.isReserved(p) {
				all = append(all, p)
			}
		}
	}
	all, err := pathParams(path, op, all)
	slices.SortStableFunc(all, func(a, b param) int { return slices.Index(paramOrder, a.in) - slices.Index(paramOrder, b.in) })
	return all, err
}

// isReserved reports whether arguments cannot set the parameter: reserved headers, and
// those that the configuration sets.
func (b *builder) isReserved(p param) bool {
	key := b.key()
	if key != nil && p.in == key.In && strings.EqualFold(p.name, key.Name) {
		return true
	}
	if p.in != "header" {
		return false
	}
	name := textproto.CanonicalMIMEHeaderKey(p.name)
	for own := range b.cfg.Headers {
		if strings.EqualFold(own, name) {
			return true
		}
	}
	return slices.Contains(reservedHeaders, name)
}

func readParam(ctx context.Context, d *document, n node) (p param, err error) {
	if n, err = d.follow(ctx, n); err != nil {
		return p, err
	}
	if err := n.requireObject("a parameter"); err != nil {
		return p, err
	}
	p = param{name: n.get("name").text(), in: n.get("in").text(), description: n.get("description").text(), schema: n.get("schema"),
		required: n.isTrue("required")}
	switch {
	case p.name == "":
		return p, n.errorf("expected a parameter with a name")
	case styles[p.in] == nil:
		return p, n.get("in").errorf("expected path, query, header or cookie, got %.40q", p.in)
	case p.in == "header" && !httpguts.ValidHeaderFieldName(p.name):
		return p, n.get("name").errorf("%.40q is not a valid header name", p.name)
	}
	if content := n.get("content"); content.v != nil {
		types := content.names()
		if len(types) != 1 {
			return p, content.errorf("expected one media type, got %d", len(types))
		}
		p.mime, p.schema = types[0], content.get(types[0]).get("schema")
	}
	if p.style = n.get("style").text(); p.style == "" {
		p.style = styles[p.in][0]
	}
	if !slices.Contains(styles[p.in], p.style) {
		return p, n.get("style").errorf("expected one of %s for a parameter in %s, got %.40q", strings.Join(styles[p.in], ", "), p.in,
			p.style)
	}
	p.explode = p.style == "form"
	if n.has("explode") {
		p.explode = n.isTrue("explode")
	}
	p.reserved = p.in == "query" && n.isTrue("allowReserved")
	p.required = p.required || p.in == "path"
	p.defaultValue = d.followOrEmpty(ctx, p.schema).value("default")
	return p, nil
}

// pathParams returns one parameter for each placeholder in the path, in its order, and
// drops path parameters without a placeholder.
func pathParams(path string, op node, all []param) ([]param, error) {
	var found []param
	segments, query := splitPath(path)
	for _, name := range placeholders(segments + query) {
		i := slices.IndexFunc(all, func(p param) bool { return p.in == "path" && p.name == name })
		switch {
		case i >= 0:
			found = append(found, all[i])
		case strings.Trim(name, " ") == "":
			return nil, op.errorf("the path %.200q has a parameter without a name", path)
		default: // many documents omit one
			found = append(found, param{name: name, in: "path", style: "simple", required: true,
				schema: node{object{"type": "string"}, op.file, op.pointer}})
		}
	}
	return append(found, slices.DeleteFunc(all, func(p param) bool { return p.in == "path" })...), nil
}

// placeholders returns the unique names in braces.
func placeholders(path string) (names []string) {
	for {
		_, rest, ok := strings.Cut(path, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			return names
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		path = after
	}
}

// assignArguments gives each parameter and the body a unique argument name. The first in
// the order path, query, header, cookie, body keeps its name; later ones get their
// location as suffix.
func assignArguments(all []param, body *body) {
	taken := map[string]bool{}
	claim := func(name, or string) string {
		for taken[name] {
			name, or = or, or+"_"
		}
		taken[name] = true
		return name
	}
	for i := range all {
		all[i].arg = claim(all[i].name, all[i].name+"_"+all[i].in)
	}
	if body != nil {
		body.arg = claim("body", "request_body")
	}
}
