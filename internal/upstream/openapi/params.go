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
	arg          string // what code calls it
	name         string // what the API calls it
	in           string // path, query, header or cookie
	style        string
	explode      bool
	reserved     bool   // its reserved characters are sent as they are
	mime         string // of a parameter that is a document of its own; "" for one with a style
	required     bool
	schema       node // of a document; v is nil if it has none
	description  string
	defaultValue any // what the API takes when it is not given; nil if unsaid
}

// styles are those that a place allows; the first is usual.
var styles = map[string][]string{
	"path":   {"simple", "label", "matrix"},
	"query":  {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
	"header": {"simple"},
	"cookie": {"form"},
}

// orderly is how the parameters of an operation are ordered.
var paramOrder = []string{"path", "query", "header", "cookie"}

// notOurs are headers that no argument sets: OpenAPI says so of the first three,
// and the others are those of the connection.
var reservedHeaders = []string{
	"Accept", "Content-Type", "Authorization", "Host", "Content-Length", "Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer",
	"Cookie", "Expect", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "User-Agent", "Accept-Encoding",
}

// params reads those of an operation and of its path: the operation's own win.
func (b *builder) params(ctx context.Context, path string, item, op node) ([]param, error) {
	var all []param
	for _, list := range []node{item.get("parameters"), op.get("parameters")} {
		if list.v != nil && kindOf(list.v) != "a list" {
			return nil, list.errorf("expected a list of parameters, got %s", kindOf(list.v))
		}
		for _, n := range list.items() {
			p, err := b.param(ctx, n)
			if err != nil {
				return nil, err
			}
			all = slices.DeleteFunc(all, func(o param) bool { return o.name == p.name && o.in == p.in })
			if !b.isReserved(p) {
				all = append(all, p)
			}
		}
	}
	all, err := b.pathParams(path, op, all)
	slices.SortStableFunc(all, func(a, b param) int { return slices.Index(paramOrder, a.in) - slices.Index(paramOrder, b.in) })
	return all, err
}

// taken tells whether no argument sets the parameter: the headers that are not
// ours, and what the configuration says.
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

func (b *builder) param(ctx context.Context, n node) (p param, err error) {
	if n, err = b.doc.follow(ctx, n); err != nil {
		return p, err
	}
	if err := n.requireObject("a parameter"); err != nil {
		return p, err
	}
	p = param{name: n.get("name").text(), in: n.get("in").text(), description: n.get("description").text(), schema: n.get("schema"), required: n.isTrue("required")}
	switch {
	case p.name == "":
		return p, n.errorf("expected a parameter with a name")
	case styles[p.in] == nil:
		return p, n.get("in").errorf("expected path, query, header or cookie, got %.40q", p.in)
	case p.in == "header" && !httpguts.ValidHeaderFieldName(p.name):
		return p, n.get("name").errorf("%.40q is no name of a header", p.name)
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
		return p, n.get("style").errorf("expected one of %s for a parameter in %s, got %.40q", strings.Join(styles[p.in], ", "), p.in, p.style)
	}
	p.explode = p.style == "form"
	if n.has("explode") {
		p.explode = n.isTrue("explode")
	}
	p.reserved = p.in == "query" && n.isTrue("allowReserved")
	p.required = p.required || p.in == "path"
	p.defaultValue = b.doc.followOrEmpty(ctx, p.schema).value("default")
	return p, nil
}

// inPath has a parameter for each of the path, in its order, and none for what
// is not in it.
func (b *builder) pathParams(path string, op node, all []param) ([]param, error) {
	var found []param
	steps, query := splitPath(path)
	for _, name := range placeholders(steps + query) {
		i := slices.IndexFunc(all, func(p param) bool { return p.in == "path" && p.name == name })
		switch {
		case i >= 0:
			found = append(found, all[i])
		case strings.Trim(name, " ") == "":
			return nil, op.errorf("the path %.200q has a parameter without a name", path)
		default: // many documents forget one
			found = append(found, param{name: name, in: "path", style: "simple", required: true, schema: node{object{"type": "string"}, op.file, op.pointer}})
		}
	}
	return append(found, slices.DeleteFunc(all, func(p param) bool { return p.in == "path" })...), nil
}

// placeholders are the names in braces, each once.
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

// arguments gives each parameter, and the body, a name of its own: the first
// keeps its own, in the order path, query, header, cookie, body; those that come
// later say where they are.
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
