package packages

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

const (
	maxFiles = 500_000  // in a layer
	maxBytes = 16 << 30 // in a layer, unpacked
	maxWheel = 2 << 30  // in one wheel, unpacked
)

// ownModules are the modules that Sandpiper provides in a sandbox, and those that Python imports when it starts.
var ownModules = []string{"sandpiper", "servers", "skills", "sitecustomize", "usercustomize"}

// unpacking writes wheels to a layer. Each file is either identical to that in its
// wheel or omitted; code that pip would run or generate is omitted.
type unpacking struct {
	to       *python.LayerWriter
	reserved map[string]bool    // modules that packages must not contain
	files    map[string]*origin // by path
	dirs     map[string]string  // path -> package
	bytes    uint64
}

// origin describes a file of a layer: the packages that contain it and its content.
type origin struct {
	pkgs     []string
	sum      [sha256.Size]byte
	declares bool // it is a module that only declares a namespace package
}

func newUnpacking(to *python.LayerWriter, builtin []string) *unpacking {
	u := &unpacking{to: to, reserved: map[string]bool{}, files: map[string]*origin{}, dirs: map[string]string{}}
	for _, name := range append(builtin, ownModules...) {
		u.reserved[name] = true
	}
	return u
}

// wheel unpacks one wheel.
func (u *unpacking) wheel(ctx context.Context, pkg Package, file string) error {
	f, err := openWheel(file, pkg.Wheels[0])
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "the wheel %s is not a zip file", pkg.Wheels[0].Name)
	}
	if err := checkSize(pkg.Wheels[0].Name, z); err != nil {
		return err
	}
	for _, e := range z.File {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := u.entry(pkg, e); err != nil {
			return err
		}
	}
	return nil
}

// checkSize fails if the declared sizes of a wheel's files exceed maxWheel. write
// refuses a file that is longer than declared.
func checkSize(name string, z *zip.Reader) error {
	left := uint64(maxWheel)
	for _, e := range z.File {
		if e.UncompressedSize64 > left {
			return fault.New(fault.Invalid, "the wheel %s unpacks to more than %d GiB", name, maxWheel>>30)
		}
		left -= e.UncompressedSize64
	}
	return nil
}

// entry unpacks one file of a wheel unless it belongs to a part that is omitted.
func (u *unpacking) entry(pkg Package, e *zip.File) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "the wheel "+pkg.Wheels[0].Name+" "+format, args...)
	}
	if strings.HasSuffix(e.Name, "/") && e.Mode().IsDir() {
		return nil
	}
	if !fs.ValidPath(e.Name) || strings.ContainsFunc(e.Name, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return bad("contains a file with the unsafe path %.100q", e.Name)
	}
	if !e.Mode().IsRegular() {
		return bad("contains %.100q, which is not a regular file but a link or a device", e.Name)
	}
	name, wanted := targetPath(e.Name)
	if !wanted {
		return nil
	}
	module, _, _ := strings.Cut(name, "/")
	module, _, _ = strings.Cut(module, ".")
	if u.reserved[module] {
		return bad("contains a module %s, which has the name of a module of Python or Sandpiper", module)
	}
	if top, _, _ := strings.Cut(name, "/"); isForeignInfo(top, pkg.Name) {
		return bad("contains %.100q, the metadata of another package", top)
	}
	if u.bytes += e.UncompressedSize64; u.bytes > maxBytes || len(u.files) >= maxFiles {
		return bad("makes the packages larger than %d files or %d GiB", maxFiles, maxBytes>>30)
	}
	had, err := u.claim(pkg, name)
	if err != nil {
		return err
	}
	file := &origin{pkgs: []string{pkg.Name}}
	if err := u.write(e, name, file, had == nil, bad); err != nil {
		return err
	}
	if had != nil && had.sum != file.sum {
		return clash(had.pkgs[0], name, pkg.Name, name)
	}
	if had != nil {
		had.pkgs = append(had.pkgs, pkg.Name)
		return nil
	}
	u.files[name] = file
	return nil
}

// write describes a file in its origin and, if it is new, writes it to the layer.
func (u *unpacking) write(e *zip.File, name string, file *origin, isNew bool, bad func(string, ...any) error) error {
	content, err := e.Open()
	if err != nil {
		return bad("cannot be unpacked: %s has an unsupported compression method", e.Name)
	}
	defer content.Close()
	h, start := sha256.New(), &beginning{}
	r := io.TeeReader(&limitedReader{content, e.UncompressedSize64}, io.MultiWriter(h, start))
	if isNew {
		err = u.to.WriteFile(name, r)
	} else {
		_, err = io.Copy(io.Discard, r)
	}
	h.Sum(file.sum[:0])
	file.declares = path.Base(name) == "__init__.py" && declaresNamespace(start)
	for _, damage := range []error{zip.ErrChecksum, zip.ErrFormat, io.ErrUnexpectedEOF, errTooLong} {
		if errors.Is(err, damage) {
			return bad("is damaged: %s does not match its checksum or size", e.Name)
		}
	}
	return err
}

// targetPath returns the path of a wheel's file in the layer. Scripts, headers and data
// files outside of the modules are omitted. So are bytecode, which is compiled from the
// sources, and files that Python would run when it starts, so that no other code can run.
func targetPath(name string) (to string, wanted bool) {
	top, rest, _ := strings.Cut(name, "/")
	if strings.HasSuffix(top, ".data") {
		kind, below, _ := strings.Cut(rest, "/")
		if kind != "purelib" && kind != "platlib" {
			return "", false
		}
		name = below
	}
	return name, name != "" && path.Base(path.Dir(name)) != "__pycache__" && path.Ext(name) != ".pyc" &&
		(path.Ext(name) != ".pth" || strings.Contains(name, "/"))
}

// claim reserves a path for pkg. If another file has it, claim returns that: packages may share a
// file with the same content, such as those of a namespace package.
func (u *unpacking) claim(pkg Package, name string) (*origin, error) {
	if had, ok := u.files[name]; ok {
		return had, nil
	}
	if other, ok := u.dirs[name]; ok {
		return nil, clash(other, name, pkg.Name, name)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if had, ok := u.files[dir]; ok {
			return nil, clash(had.pkgs[0], dir, pkg.Name, name)
		}
		u.dirs[dir] = pkg.Name
	}
	return nil, nil
}

var errTooLong = errors.New("longer than its declared size")

// limitedReader fails with errTooLong if there are more than left bytes.
type limitedReader struct {
	from io.Reader
	left uint64
}

func (x *limitedReader) Read(p []byte) (int, error) {
	n, err := x.from.Read(p)
	if uint64(n) > x.left {
		return 0, errTooLong
	}
	x.left -= uint64(n)
	return n, err
}
