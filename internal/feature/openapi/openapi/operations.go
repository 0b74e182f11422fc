package openapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// operation contains what a call of an operation needs.
type operation struct {
	method     string
	path       string // with its placeholders
	server     string // URL of its own server; "" means that of the document
	params     []param
	body       *body
	accept     string // Accept header
	noAuth     bool   // the document declares that it needs no credentials
	pagesArg   string // name of the argument for the number of pages; "" means none
	definition tool.Definition
}

// methods lists the methods in the order in which operations are read.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// builder compiles a document.
type builder struct {
	cfg    *Config
	doc    *document
	result *compiled
}

// load reads and compiles the document.
func (a *API) load(ctx context.Context) (*compiled, error) {
	r, err := a.reader(ctx)
	if err != nil {
		return nil, err
	}
	b := &builder{cfg: &a.cfg, result: &compiled{operations: map[string]*operation{}, files: r.stamps, read: time.Now()}}
	err = b.build(ctx, r)
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		e := *cause
		e.Message = "has a document that cannot be used: " + cause.Message
		return nil, &e
	}
	if err != nil {
		return nil, err
	}
	r.saveCopies()
	return b.result, nil
}

func (b *builder) build(ctx context.Context, r *reader) (err error) {
	if b.doc, err = read(ctx, r); err != nil {
		return err
	}
	if err := b.readInfo(); err != nil {
		return err
	}
	if err := b.security(ctx, r); err != nil {
		return err
	}
	if err := b.resolveServer(r); err != nil {
		return err
	}
	return b.paths(ctx)
}

// readInfo checks the version and reads the description of the API.
func (b *builder) readInfo() error {
	top := b.doc.root
	if err := top.requireObject("an object with the keys openapi and paths"); err != nil {
		return err
	}
	version := top.get("openapi").text()
	switch {
	case top.has("swagger"):
		return top.get("swagger").errorf("Swagger %.20s is not supported; expected OpenAPI 3.0 or 3.1", top.get("swagger").text()).
			WithHint("convert the document to OpenAPI 3, for example with `npx swagger2openapi FILE`")
	case version == "":
		return top.errorf("expected the key openapi with a version such as 3.1.0; this is not an OpenAPI document")
	case version != "3.0" && version != "3.1" && !strings.HasPrefix(version, "3.0.") && !strings.HasPrefix(version, "3.1."):
		return top.get("openapi").errorf("OpenAPI %.20s is not supported; expected 3.0 or 3.1", version)
	}
	b.doc.v30 = strings.HasPrefix(version, "3.0")
	info := top.get("info")
	b.result.info = Info{
		Title: sanitize.Line(info.get("title").text(), 300), Version: sanitize.Line(info.get("version").text(), 100),
		Description: sanitize.Text(strings.TrimSpace(info.get("description").text()), 2<<10), Protocol: "OpenAPI " + sanitize.Line(version,
			20),
	}
	return nil
}

// maxNotes bounds the notes about omitted operations.
const maxNotes = 100

// paths reads all included operations. An invalid operation is omitted and noted.
func (b *builder) paths(ctx context.Context) error {
	paths := b.doc.root.get("paths")
	if err := paths.requireObject("an object of paths"); err != nil {
		return err
	}
	var found []*operation
	var ids []string
	known := map[string]bool{}
	for _, path := range paths.names() {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, err := b.doc.follow(ctx, paths.get(path))
		if err == nil {
			err = item.requireObject("an object of operations")
		}
		if err == nil && !strings.HasPrefix(path, "/") {
			err = paths.get(path).errorf("expected a path that begins with /")
		}
		if err != nil {
			b.result.addNote(path, err)
			continue
		}
		for _, method := range methods {
			op := item.get(method)
			if op.v == nil || !b.cfg.isIncluded(method, op) {
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			x, err := b.operation(ctx, method, path, item, op)
			if err != nil {
				b.result.addNote(strings.ToUpper(method)+" "+path, err)
				continue
			}
			id := op.get("operationId").text()
			if id == "" || known[id] {
				id = method + path
			}
			known[id] = true
			found, ids = append(found, x), append(ids, id)
		}
	}
	if len(found) == 0 {
		return noOperations(paths, b.result.notes)
	}
	b.result.assignNames(found, ids)
	return nil
}

// noOperations explains why there is no operation.
func noOperations(paths node, notes []string) error {
	if len(notes) > 0 {
		return fault.New(fault.Invalid, "no operation can be used: %s", notes[0])
	}
	e := paths.errorf("no operation is included")
	if len(paths.names()) > 0 {
		return e.WithHint("check include and exclude of the server")
	}
	return e
}

func (c *compiled) addNote(what string, err error) {
	switch n := len(c.notes); {
	case n < maxNotes:
		c.notes = append(c.notes, fmt.Sprintf("%s is omitted: %s", sanitize.Line(what, 200), fault.Message(err)))
	case n == maxNotes:
		c.notes = append(c.notes, "more operations are omitted")
	}
}

// assignNames gives each operation a name that is a Python identifier.
func (c *compiled) assignNames(found []*operation, ids []string) {
	for i, id := range ids {
		ids[i] = strings.Trim(toIdentifier(id), "_")
	}
	seen := map[string]int{}
	for i, id := range ids { // duplicate names: the first keeps its name
		if seen[id]++; seen[id] > 1 {
			ids[i] = fmt.Sprintf("%s_%d", id, seen[id])
		}
	}
	python := tool.ModuleNames(ids)
	for i, x := range found {
		name := python[ids[i]]
		for c.operations[name] != nil {
			name += "_"
		}
		x.definition.Tool = name
		c.operations[name] = x
	}
	for _, name := range slices.Sorted(maps.Keys(c.operations)) {
		c.order = append(c.order, c.operations[name])
	}
}

// toIdentifier replaces runs of characters that identifiers cannot contain with one
// underscore.
func toIdentifier(id string) string {
	return strings.Join(strings.FieldsFunc(id, func(r rune) bool {
		return r < 0x80 && (r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
	}), "_")
}

// operation compiles one operation.
func (b *builder) operation(ctx context.Context, method, path string, item, op node) (*operation, error) {
	if err := op.requireObject("an operation"); err != nil {
		return nil, err
	}
	x := &operation{method: strings.ToUpper(method), path: path}
	var err error
	if x.server, err = b.cfg.operationServer(op, item); err != nil {
		return nil, err
	}
	if x.params, err = b.params(ctx, path, item, op); err != nil {
		return nil, err
	}
	if x.body, err = readBody(ctx, b.doc, op); err != nil {
		return nil, err
	}
	assignArguments(x.params, x.body)
	security, declared := op.get("security").v.([]any)
	x.noAuth = declared && len(security) == 0
	answers, err := readResponses(ctx, b.doc, method, op)
	if err != nil {
		return nil, err
	}
	x.accept = answers.accept
	if method == "get" && answers.paged && answers.isList {
		x.pagesArg = x.freeName("pages")
	}
	x.definition = definition(ctx, b.doc, x, op, answers)
	x.releaseDocument()
	return x, nil
}

// freeName returns a name that no argument has.
func (x *operation) freeName(name string) string {
	for slices.ContainsFunc(x.params, func(p param) bool { return p.arg == name }) {
		name += "_"
	}
	return name
}

// releaseDocument releases references to the document, which calls do not need.
func (x *operation) releaseDocument() {
	for i := range x.params {
		x.params[i].schema, x.params[i].description, x.params[i].defaultValue = node{}, "", nil
	}
	if x.body != nil {
		x.body.schema, x.body.description = node{}, ""
	}
}

// Filter selects operations. An empty list selects all; an operation must match every
// list.
type Filter struct {
	Tags       []string `key:"tags"`
	Operations []string `key:"operations"` // operationIds; * matches any text
	Methods    []string `key:"methods"`
}

func (f Filter) isEmpty() bool { return len(f.Tags)+len(f.Operations)+len(f.Methods) == 0 }

func (s *Source) isIncluded(method string, op node) bool {
	return s.Include.matches(method, op) && (s.Exclude.isEmpty() || !s.Exclude.matches(method, op))
}

func (f Filter) matches(method string, op node) bool {
	if len(f.Methods) > 0 && !slices.ContainsFunc(f.Methods, func(m string) bool { return strings.EqualFold(m, method) }) {
		return false
	}
	id := op.get("operationId").text()
	if len(f.Operations) > 0 && !slices.ContainsFunc(f.Operations, func(pattern string) bool { return matchPattern(pattern, id) }) {
		return false
	}
	return len(f.Tags) == 0 || slices.ContainsFunc(op.get("tags").items(),
		func(tag node) bool { return slices.Contains(f.Tags, tag.text()) })
}

// matchPattern reports whether text matches a pattern with stars.
func matchPattern(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	for {
		piece, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, piece)
		}
		i := strings.Index(text, piece)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(piece):], more
	}
}
