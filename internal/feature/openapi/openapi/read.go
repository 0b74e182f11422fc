package openapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Bounds of a document and the files that it references.
const (
	maxFiles = 1000
	maxBytes = 64 << 20
)

// document contains the files of a document that were read.
type document struct {
	reader *reader
	files  map[string]*file
	bytes  int
	root   node
	v30    bool // of OpenAPI 3.0, where null is expressed differently
}

// read reads the main file. Referenced files are read on demand.
func read(ctx context.Context, r *reader) (*document, error) {
	d := &document{reader: r, files: map[string]*file{}}
	f, err := d.file(ctx, r.main)
	if err != nil {
		return nil, err
	}
	d.root = node{f.root, f, ""}
	return d, nil
}

// file returns a file, reading it at most once, even if reading fails.
func (d *document) file(ctx context.Context, name string) (*file, error) {
	if f := d.files[name]; f != nil {
		return f, f.err
	}
	f, err := d.open(ctx, name)
	if err != nil {
		f = &file{name: name, err: err}
	}
	if ctx.Err() == nil {
		d.files[name] = f
	}
	return f, err
}

func (d *document) open(ctx context.Context, name string) (*file, error) {
	if len(d.files) == maxFiles {
		return nil, fault.New(fault.Invalid, "the document %s has more than %d files", d.reader.title(d.reader.main), maxFiles)
	}
	data, err := d.reader.read(ctx, name)
	if err != nil {
		return nil, err
	}
	if d.bytes += len(data); d.bytes > maxBytes {
		return nil, d.reader.tooLargeError(name)
	}
	f := &file{name: name, title: d.reader.title(name), data: data}
	return f, f.parse()
}

// maxRefs bounds a chain of references.
const maxRefs = 50

// follow resolves the reference of a node, if it is one.
func (d *document) follow(ctx context.Context, n node) (node, error) {
	found, bad := d.resolve(ctx, n)
	if bad == nil {
		return found, nil
	}
	err := bad.node.errorf("%s", bad.reason)
	err.Kind = bad.kind
	return n, err
}

// followOrEmpty is follow for optional values: an invalid reference returns an empty
// node.
func (d *document) followOrEmpty(ctx context.Context, n node) node {
	found, bad := d.resolve(ctx, n)
	if bad != nil {
		return node{}
	}
	return found
}

// refError is an invalid reference. Its line is looked up only when it is reported.
type refError struct {
	node   node
	reason string
	kind   fault.Kind
}

func (d *document) resolve(ctx context.Context, n node) (node, *refError) {
	for range maxRefs {
		ref, ok := n.value("$ref").(string)
		if !ok {
			return n, nil
		}
		next, bad := d.target(ctx, n, ref)
		if bad != nil {
			return n, bad
		}
		n = next
	}
	return n, &refError{n, "the references form a cycle", fault.Invalid}
}

func (d *document) target(ctx context.Context, n node, ref string) (node, *refError) {
	wrong := func(kind fault.Kind, why string) (node, *refError) {
		return n, &refError{n, fmt.Sprintf("$ref %.200q %s", ref, why), kind}
	}
	place, fragment, _ := strings.Cut(ref, "#")
	f := n.file
	if place != "" {
		name, err := d.reader.relativeName(n.file.name, place)
		if err != nil {
			return wrong(fault.Invalid, err.Error())
		}
		if f, err = d.file(ctx, name); err != nil {
			return wrong(fault.KindOf(err), "cannot be resolved: "+fault.Message(err))
		}
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil || fragment != "" && fragment[0] != '/' {
		return wrong(fault.Invalid, "is not supported: expected FILE#/path/to/it")
	}
	found := node{f.root, f, ""}
	for _, step := range pointerSteps(fragment) {
		if found = found.step(step); found.v == nil {
			return wrong(fault.Invalid, "points to nothing")
		}
	}
	return found, nil
}

// step returns a member of an object or an item of a list.
func (n node) step(step string) node {
	for _, item := range n.items() {
		if strings.HasSuffix(item.pointer, "/"+step) {
			return item
		}
	}
	return n.get(step)
}

// reader reads the files of one document from one directory, on disk or below one URL,
// and never outside of it.
type reader struct {
	main       string   // name of the main file in its directory
	dir        string   // "" for one at a URL
	base       *url.URL // nil for one on disk
	cache      string   // directory for copies; "" means none
	hideURL    bool     // the URL contains a resolved secret and is not displayed
	get        func(ctx context.Context, url, title string) ([]byte, error)
	warn       func(msg string, args ...any)
	stamps     fileStamps
	downloaded map[string][]byte // downloaded files, by the path of their copy
}

func (a *API) reader(ctx context.Context) (*reader, error) {
	place, err := a.cfg.Resolve(ctx, "openapi", a.cfg.Document)
	if err != nil {
		return nil, err
	}
	r := &reader{
		cache:      a.cfg.CacheDir,
		hideURL:    place != a.cfg.Document,
		get:        a.fetch,
		warn:       a.cfg.Log.Warn,
		stamps:     fileStamps{},
		downloaded: map[string][]byte{},
	}
	if !isURL(place) {
		r.dir, r.main = filepath.Split(place)
		return r, nil
	}
	if r.base, err = url.Parse(place); err != nil || r.base.Host == "" {
		return nil, fault.New(fault.Invalid, "the URL of the OpenAPI document is invalid")
	}
	if r.main = path.Base(r.base.Path); strings.HasSuffix(r.base.Path, "/") || r.base.Path == "" {
		r.main = ""
	}
	return r, nil
}

// isURL distinguishes a URL from a path.
func isURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// title returns the name of a file for messages, without the query, which may contain a
// secret.
func (r *reader) title(name string) string {
	if r.base == nil {
		return sanitize.Line(name, 200)
	}
	u := r.url(name)
	if r.hideURL {
		return sanitize.Line("at "+u.Host, 300)
	}
	return sanitize.Line(u.Scheme+"://"+u.Host+u.Path, 300)
}

func (r *reader) url(name string) *url.URL {
	if name == r.main {
		return r.base
	}
	return r.base.ResolveReference(&url.URL{Path: "./" + name})
}

// relativeName returns the name of a referenced file.
func (r *reader) relativeName(from, place string) (string, error) {
	u, err := url.Parse(place)
	switch {
	case err != nil:
		return "", errors.New("is not a valid URI reference")
	case u.Scheme != "" || u.Host != "":
		return "", errors.New("refers to another host: a document may refer only to files in its directory; bundle it into one file")
	}
	name := path.Join(path.Dir(from), u.Path)
	if strings.HasPrefix(u.Path, "/") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", errors.New("refers to a file outside the directory of the document")
	}
	return name, nil
}

func (r *reader) read(ctx context.Context, name string) ([]byte, error) {
	if r.base != nil {
		return r.download(ctx, name)
	}
	f, err := r.open(name)
	if errors.Is(err, errNotRegular) {
		return nil, fault.New(fault.Invalid, "%s is not a regular file", r.title(name))
	}
	if err != nil {
		return nil, r.readError(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, r.readError(name, err)
	}
	if info.Size() > maxBytes {
		return nil, r.tooLargeError(name)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, r.readError(name, err)
	}
	r.stamps[filepath.Join(r.dir, filepath.FromSlash(name))] = fileStamp{info.ModTime(), info.Size()}
	return data, nil
}

var errNotRegular = errors.New("not a regular file")

// open opens the main file wherever its path leads, and other files only within its
// directory, even through links. It opens only regular files, since opening a pipe would
// block.
func (r *reader) open(name string) (*os.File, error) {
	look, open := os.Stat, os.Open
	place := filepath.Join(r.dir, name)
	if name != r.main {
		root, err := os.OpenRoot(filepath.Join(r.dir, "."))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		look, open, place = root.Stat, root.Open, filepath.FromSlash(name)
	}
	info, err := look(place)
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return nil, err
	}
	return open(place)
}

func (r *reader) readError(name string, err error) error {
	why := "cannot be read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "does not exist"
	case errors.Is(err, fs.ErrPermission):
		why = "is not readable for the user that runs Sandpiper"
	case strings.Contains(err.Error(), "escapes"):
		why = "is outside the directory of the document"
	}
	return fault.Wrap(fault.Invalid, err, "the OpenAPI document %s %s", r.title(name), why)
}

func (r *reader) tooLargeError(name string) error {
	return fault.New(fault.Invalid, "the OpenAPI document %s has more than %d MiB including referenced files", r.title(name), maxBytes>>20)
}

// fileStamps contains the state of files when they were read, by path.
type fileStamps map[string]fileStamp

type fileStamp struct {
	changed time.Time
	size    int64
}

func (s fileStamps) changed() bool {
	for name, was := range s {
		info, err := os.Stat(name)
		if err != nil || info.ModTime() != was.changed || info.Size() != was.size {
			return true
		}
	}
	return false
}
