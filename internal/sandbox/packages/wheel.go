package packages

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// Bounds of all wheels of a layer together, and of one wheel.
const (
	maxFiles = 500_000
	maxBytes = 16 << 30
	maxWheel = 2 << 30
)

// ours are the modules of the sandbox itself.
var ours = []string{"sandpiper", "servers", "skills"}

// unpacking puts wheels into a layer. A file is either as its wheel has it or
// not there; code that pip would run or generate does not exist here.
type unpacking struct {
	to       *python.LayerWriter
	reserved map[string]bool   // modules that no package may have
	files    map[string]origin // by path
	dirs     map[string]string // package, by path
	bytes    uint64
}

// origin is where a file came from.
type origin struct {
	pkg  string
	crc  uint32
	size uint64
}

func newUnpacking(to *python.LayerWriter, builtin []string) *unpacking {
	u := &unpacking{to: to, reserved: map[string]bool{}, files: map[string]origin{}, dirs: map[string]string{}}
	for _, name := range append(builtin, ours...) {
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
	if err := fits(pkg.Wheels[0].Name, z); err != nil {
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

// fits fails if a wheel says that it unpacks to more than maxWheel. No file of it
// becomes longer than it says.
func fits(name string, z *zip.Reader) error {
	left := uint64(maxWheel)
	for _, e := range z.File {
		if e.UncompressedSize64 > left {
			return fault.New(fault.Invalid, "the wheel %s unpacks to more than %d GiB", name, maxWheel>>30)
		}
		left -= e.UncompressedSize64
	}
	return nil
}

// entry unpacks one file of a wheel, if it is one to import or to read.
func (u *unpacking) entry(pkg Package, e *zip.File) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "the wheel "+pkg.Wheels[0].Name+" "+format, args...)
	}
	if strings.HasSuffix(e.Name, "/") && e.Mode().IsDir() {
		return nil
	}
	if !fs.ValidPath(e.Name) || strings.ContainsFunc(e.Name, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return bad("has a file %.100q, whose name leads elsewhere", e.Name)
	}
	if !e.Mode().IsRegular() {
		return bad("has %.100q, which is no plain file but a link or a device", e.Name)
	}
	name, wanted := place(e.Name)
	if !wanted {
		return nil
	}
	module, _, _ := strings.Cut(name, "/")
	module, _, _ = strings.Cut(module, ".")
	if u.reserved[module] {
		return bad("has a module %s, which is the name of one that Python or Sandpiper has", module)
	}
	done, err := u.claim(pkg, name, e)
	if done || err != nil {
		return err
	}
	if u.bytes += e.UncompressedSize64; u.bytes > maxBytes || len(u.files) > maxFiles {
		return bad("makes the packages larger than %d files or %d GiB", maxFiles, maxBytes>>30)
	}
	return u.write(e, name, bad)
}

func (u *unpacking) write(e *zip.File, name string, bad func(string, ...any) error) error {
	content, err := e.Open()
	if err != nil {
		return bad("cannot be unpacked: %s is compressed in a way we do not know", e.Name)
	}
	defer content.Close()
	err = u.to.WriteFile(name, &exactly{content, e.UncompressedSize64})
	for _, damage := range []error{zip.ErrChecksum, zip.ErrFormat, io.ErrUnexpectedEOF, errTooLong} {
		if errors.Is(err, damage) {
			return bad("is damaged: %s is not what it says", e.Name)
		}
	}
	return err
}

// place returns where a file of a wheel goes. Programs, headers and data beside the
// modules have no place in a sandbox, and bytecode is made anew: nothing else
// may run than what the sources say.
func place(name string) (to string, wanted bool) {
	top, rest, _ := strings.Cut(name, "/")
	if strings.HasSuffix(top, ".data") {
		kind, below, _ := strings.Cut(rest, "/")
		if kind != "purelib" && kind != "platlib" {
			return "", false
		}
		name = below
	}
	return name, name != "" && path.Base(path.Dir(name)) != "__pycache__" && path.Ext(name) != ".pyc"
}

// claim takes a path for pkg. Packages may share a file that is the same in
// both, as parts of a namespace do; then it is done.
func (u *unpacking) claim(pkg Package, name string, e *zip.File) (done bool, err error) {
	clash := func(other string) error {
		return fault.New(fault.Invalid, "both %s and %s have a file %s, and they differ", other, pkg.Name, name).
			WithHint("one of the two has to go from what is wanted")
	}
	mine := origin{pkg.Name, e.CRC32, e.UncompressedSize64}
	if had, ok := u.files[name]; ok {
		if had.crc != mine.crc || had.size != mine.size {
			return false, clash(had.pkg)
		}
		return true, nil
	}
	if other, ok := u.dirs[name]; ok {
		return false, clash(other)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if had, ok := u.files[dir]; ok {
			return false, clash(had.pkg)
		}
		u.dirs[dir] = pkg.Name
	}
	u.files[name] = mine
	return false, nil
}

var errTooLong = errors.New("longer than it says")

// exactly reads as many bytes as there should be, and fails if there are more.
type exactly struct {
	from io.Reader
	left uint64
}

func (x *exactly) Read(p []byte) (int, error) {
	n, err := x.from.Read(p)
	if uint64(n) > x.left {
		return 0, errTooLong
	}
	x.left -= uint64(n)
	return n, err
}
