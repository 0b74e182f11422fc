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

const (
	maxFiles = 500_000  // in a layer
	maxBytes = 16 << 30 // in a layer, unpacked
	maxWheel = 2 << 30  // in one wheel, unpacked
)

// ownModules are the modules that Sandpiper provides in a sandbox.
var ownModules = []string{"sandpiper", "servers", "skills"}

// unpacking writes wheels to a layer. Each file is either identical to that in its
// wheel or omitted; code that pip would run or generate is omitted.
type unpacking struct {
	to       *python.LayerWriter
	reserved map[string]bool   // modules that packages must not contain
	files    map[string]origin // by path
	dirs     map[string]string // path -> package
	bytes    uint64
}

// origin is the package and the content of a file.
type origin struct {
	pkg  string
	crc  uint32
	size uint64
}

func newUnpacking(to *python.LayerWriter, builtin []string) *unpacking {
	u := &unpacking{to: to, reserved: map[string]bool{}, files: map[string]origin{}, dirs: map[string]string{}}
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
		return bad("cannot be unpacked: %s has an unsupported compression method", e.Name)
	}
	defer content.Close()
	err = u.to.WriteFile(name, &limitedReader{content, e.UncompressedSize64})
	for _, damage := range []error{zip.ErrChecksum, zip.ErrFormat, io.ErrUnexpectedEOF, errTooLong} {
		if errors.Is(err, damage) {
			return bad("is damaged: %s does not match its checksum or size", e.Name)
		}
	}
	return err
}

// targetPath returns the path of a wheel's file in the layer. Scripts, headers and data
// files outside of the modules are omitted. So is bytecode: it is compiled from the
// sources, so that no other code can run.
func targetPath(name string) (to string, wanted bool) {
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

// claim reserves a path for pkg. Packages may share a file with the same content, such
// as those of a namespace package; done is then true for the second one.
func (u *unpacking) claim(pkg Package, name string, e *zip.File) (done bool, err error) {
	clash := func(other string) error {
		return fault.New(fault.Invalid, "both %s and %s contain a file %s, and they differ", other, pkg.Name, name).
			WithHint("remove one of the two packages from the requirements")
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
