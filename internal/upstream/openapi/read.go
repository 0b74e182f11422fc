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
	mostFiles = 1000
	mostBytes = 64 << 20
)

// document is all files that were read of one.
type document struct {
	reader *reader
	files  map[string]*file
	bytes  int
	top    node
}

// read reads the document's own file. Others are read when something refers to
// them.
func read(ctx context.Context, r *reader) (*document, error) {
	d := &document{reader: r, files: map[string]*file{}}
	f, err := d.file(ctx, r.main)
	if err != nil {
		return nil, err
	}
	d.top = node{f.top, f, ""}
	return d, nil
}

// file reads a file once, also one that cannot be read.
func (d *document) file(ctx context.Context, name string) (*file, error) {
	if f := d.files[name]; f != nil {
		return f, f.bad
	}
	f, err := d.open(ctx, name)
	if err != nil {
		f = &file{name: name, bad: err}
	}
	if ctx.Err() == nil {
		d.files[name] = f
	}
	return f, err
}

func (d *document) open(ctx context.Context, name string) (*file, error) {
	if len(d.files) == mostFiles {
		return nil, fault.New(fault.Invalid, "the document %s has more than %d files", d.reader.title(d.reader.main), mostFiles)
	}
	data, err := d.reader.read(ctx, name)
	if err != nil {
		return nil, err
	}
	if d.bytes += len(data); d.bytes > mostBytes {
		return nil, d.reader.tooLarge(name)
	}
	f := &file{name: name, title: d.reader.title(name), data: data}
	return f, f.parse()
}

// mostRefs may follow each other.
const mostRefs = 50

// follow goes where the node refers to, if it does.
func (d *document) follow(ctx context.Context, n node) (node, error) {
	found, bad := d.chase(ctx, n)
	if bad == nil {
		return found, nil
	}
	said := bad.at.wrong("%s", bad.why)
	said.Kind = bad.kind
	return n, said
}

// look is follow for who can do without: nothing is there where a reference leads
// nowhere.
func (d *document) look(ctx context.Context, n node) node {
	found, bad := d.chase(ctx, n)
	if bad != nil {
		return node{}
	}
	return found
}

// astray is a reference that leads nowhere. Its place is not looked up before
// somebody is told.
type astray struct {
	at   node
	why  string
	kind fault.Kind
}

func (d *document) chase(ctx context.Context, n node) (node, *astray) {
	for range mostRefs {
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
	return n, &astray{n, "references lead in a circle", fault.Invalid}
}

func (d *document) target(ctx context.Context, n node, ref string) (node, *astray) {
	wrong := func(kind fault.Kind, why string) (node, *astray) {
		return n, &astray{n, fmt.Sprintf("$ref %.200q %s", ref, why), kind}
	}
	place, fragment, _ := strings.Cut(ref, "#")
	f := n.file
	if place != "" {
		name, err := d.reader.relative(n.file.name, place)
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
	found := node{f.top, f, ""}
	for _, step := range steps(fragment) {
		if found = found.step(step); found.v == nil {
			return wrong(fault.Invalid, "leads to nothing")
		}
	}
	return found, nil
}

// step is a member of an object or an item of a list.
func (n node) step(step string) node {
	for _, item := range n.items() {
		if strings.HasSuffix(item.at, "/"+step) {
			return item
		}
	}
	return n.get(step)
}

// reader gets the files of one document. They lie in one directory, on disk or
// beneath one URL, and nothing outside of it is read.
type reader struct {
	main  string   // the name of the document in its directory
	dir   string   // "" for one at a URL
	at    *url.URL // nil for one on disk
	cache string   // directory for copies; "" means none
	quiet bool     // its URL holds what was looked up, and is not shown
	get   func(ctx context.Context, url, title string) ([]byte, error)
	warn  func(msg string, args ...any)
	seen  stamp
	came  map[string][]byte // what was downloaded, by the path of its copy
}

func (a *API) reader(ctx context.Context) (*reader, error) {
	place, err := a.cfg.Resolve(ctx, "openapi", a.cfg.Document)
	if err != nil {
		return nil, err
	}
	r := &reader{cache: a.cfg.Cache, quiet: place != a.cfg.Document, get: a.fetch, warn: a.cfg.Log.Warn, seen: stamp{}, came: map[string][]byte{}}
	if !remote(place) {
		r.dir, r.main = filepath.Split(place)
		return r, nil
	}
	if r.at, err = url.Parse(place); err != nil || r.at.Host == "" {
		return nil, fault.New(fault.Invalid, "the URL of the OpenAPI document cannot be understood")
	}
	if r.main = path.Base(r.at.Path); strings.HasSuffix(r.at.Path, "/") || r.at.Path == "" {
		r.main = ""
	}
	return r, nil
}

// remote tells a URL from a path.
func remote(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// title is the name of a file in a message: no query, which may hold a secret.
func (r *reader) title(name string) string {
	if r.at == nil {
		return sanitize.Line(name, 200)
	}
	u := r.url(name)
	if r.quiet {
		return sanitize.Line("at "+u.Host, 300)
	}
	return sanitize.Line(u.Scheme+"://"+u.Host+u.Path, 300)
}

func (r *reader) url(name string) *url.URL {
	if name == r.main {
		return r.at
	}
	return r.at.ResolveReference(&url.URL{Path: "./" + name})
}

// relative is the name of what a file refers to.
func (r *reader) relative(from, place string) (string, error) {
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
	if r.at != nil {
		return r.download(ctx, name)
	}
	f, err := r.open(name)
	if errors.Is(err, errNoFile) {
		return nil, fault.New(fault.Invalid, "%s is no file", r.title(name))
	}
	if err != nil {
		return nil, r.unread(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, r.unread(name, err)
	}
	if info.Size() > mostBytes {
		return nil, r.tooLarge(name)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, r.unread(name, err)
	}
	r.seen[filepath.Join(r.dir, filepath.FromSlash(name))] = seen{info.ModTime(), info.Size()}
	return data, nil
}

var errNoFile = errors.New("no file")

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
		err = errNoFile
	}
	if err != nil {
		return nil, err
	}
	return open(place)
}

func (r *reader) unread(name string, err error) error {
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

func (r *reader) tooLarge(name string) error {
	return fault.New(fault.Invalid, "the OpenAPI document %s has more than %d MiB, with what it refers to", r.title(name), mostBytes>>20)
}

// stamp is how files on disk were when they were read, by path.
type stamp map[string]seen

type seen struct {
	changed time.Time
	size    int64
}

func (s stamp) changed() bool {
	for name, was := range s {
		info, err := os.Stat(name)
		if err != nil || info.ModTime() != was.changed || info.Size() != was.size {
			return true
		}
	}
	return false
}
