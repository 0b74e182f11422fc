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

// Bounds of a document with all its files.
const (
	maxFiles = 1000
	maxBytes = 64 << 20
)

// document is all files that were read of one.
type document struct {
	reader *reader
	files  map[string]*file
	bytes  int
	root   node
}

// read reads the document's own file. Others are read when something refers to
// them.
func read(ctx context.Context, r *reader) (*document, error) {
	d := &document{reader: r, files: map[string]*file{}}
	f, err := d.file(ctx, r.main)
	if err != nil {
		return nil, err
	}
	d.root = node{f.root, f, ""}
	return d, nil
}

// file reads a file once, also one that cannot be read.
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

// mostRefs may follow each other.
const maxRefs = 50

// follow goes where the node refers to, if it does.
func (d *document) follow(ctx context.Context, n node) (node, error) {
	found, bad := d.resolve(ctx, n)
	if bad == nil {
		return found, nil
	}
	said := bad.node.errorf("%s", bad.reason)
	said.Kind = bad.kind
	return n, said
}

// look is follow for who can do without: nothing is there where a reference leads
// nowhere.
func (d *document) followOrEmpty(ctx context.Context, n node) node {
	found, bad := d.resolve(ctx, n)
	if bad != nil {
		return node{}
	}
	return found
}

// astray is a reference that leads nowhere. Its place is not looked up before
// somebody is told.
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
	return n, &refError{n, "references lead in a circle", fault.Invalid}
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
			return wrong(fault.KindOf(err), "leads to nothing: "+fault.Message(err))
		}
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil || fragment != "" && fragment[0] != '/' {
		return wrong(fault.Invalid, "is none that can be followed: expected FILE#/path/to/it")
	}
	found := node{f.root, f, ""}
	for _, step := range pointerSteps(fragment) {
		if found = found.step(step); found.v == nil {
			return wrong(fault.Invalid, "leads to nothing")
		}
	}
	return found, nil
}

// step is a member of an object or an item of a list.
func (n node) step(step string) node {
	for _, item := range n.items() {
		if strings.HasSuffix(item.pointer, "/"+step) {
			return item
		}
	}
	return n.get(step)
}

// reader gets the files of one document. They lie in one directory, on disk or
// beneath one URL, and nothing outside of it is read.
type reader struct {
	main       string   // the name of the document in its directory
	dir        string   // "" for one at a URL
	base       *url.URL // nil for one on disk
	cache      string   // directory for copies; "" means none
	hideURL    bool     // its URL holds what was looked up, and is not shown
	get        func(ctx context.Context, url, title string) ([]byte, error)
	warn       func(msg string, args ...any)
	stamps     fileStamps
	downloaded map[string][]byte // what was downloaded, by the path of its copy
}

func (a *API) reader(ctx context.Context) (*reader, error) {
	place, err := a.cfg.Resolve(ctx, "openapi", a.cfg.Document)
	if err != nil {
		return nil, err
	}
	r := &reader{cache: a.cfg.CacheDir, hideURL: place != a.cfg.Document, get: a.fetch, warn: a.cfg.Log.Warn, stamps: fileStamps{}, downloaded: map[string][]byte{}}
	if !isURL(place) {
		r.dir, r.main = filepath.Split(place)
		return r, nil
	}
	if r.base, err = url.Parse(place); err != nil || r.base.Host == "" {
		return nil, fault.New(fault.Invalid, "the URL of the OpenAPI document cannot be understood")
	}
	if r.main = path.Base(r.base.Path); strings.HasSuffix(r.base.Path, "/") || r.base.Path == "" {
		r.main = ""
	}
	return r, nil
}

// remote tells a URL from a path.
func isURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// title is the name of a file in a message: no query, which may hold a secret.
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

// relative is the name of what a file refers to.
func (r *reader) relativeName(from, place string) (string, error) {
	u, err := url.Parse(place)
	switch {
	case err != nil:
		return "", errors.New("cannot be understood")
	case u.Scheme != "" || u.Host != "":
		return "", errors.New("leads to another place: files of a document have to lie beside it; make one file of it, or download what it needs")
	}
	name := path.Join(path.Dir(from), u.Path)
	if strings.HasPrefix(u.Path, "/") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", errors.New("leaves the directory of the document: files of a document have to lie in it, or beneath")
	}
	return name, nil
}

func (r *reader) read(ctx context.Context, name string) ([]byte, error) {
	if r.base != nil {
		return r.download(ctx, name)
	}
	f, err := r.open(name)
	if errors.Is(err, errNotRegular) {
		return nil, fault.New(fault.Invalid, "%s is no file", r.title(name))
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

var errNotRegular = errors.New("no file")

// open opens the document wherever its name leads, and others in its directory
// only, whatever links there are in it. What is no file is not opened: a pipe
// would wait.
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
		why = "may not be read by the user that runs Sandpiper"
	case strings.Contains(err.Error(), "escapes"):
		why = "leads out of the directory of the document"
	}
	return fault.Wrap(fault.Invalid, err, "the OpenAPI document %s %s", r.title(name), why)
}

func (r *reader) tooLargeError(name string) error {
	return fault.New(fault.Invalid, "the OpenAPI document %s has more than %d MiB, with what it refers to", r.title(name), maxBytes>>20)
}

// stamp is how files on disk were when they were read, by path.
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
