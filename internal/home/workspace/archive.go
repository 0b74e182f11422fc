package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Archived counts the content of a workspace in an archive.
type Archived struct {
	Files   int64 `json:"files"`   // with links and directories
	Bytes   int64 `json:"bytes"`   // of the content, without holes
	Skipped int64 `json:"skipped"` // FIFOs, sockets, and entries that cannot be read
	Changed int64 `json:"changed"` // files that code wrote while they were read
}

// Records of a sparse file in an archive: its size, and the parts that the archive has of it, as
// "offset+length" with commas.
const (
	sparseSize  = "SANDPIPER.size"
	sparseParts = "SANDPIPER.parts"
)

// segment is a part of a file that is not a hole.
type segment struct{ offset, length int64 }

// Archive writes the entries of the workspace to tw, with names below prefix. Directories come
// before what they contain. The mounts, which are names at the top, are omitted. It adds permissions
// to directories that their owner cannot read. Files that code changes during the copy are counted:
// such a file may be in the archive in a mixed state, and with zeros at its end if it became shorter.
// A file that cannot be read to its end has zeros too; Archive continues, and returns an error
// that names it.
func (f *Files) Archive(ctx context.Context, tw *tar.Writer, prefix string, mounts ...string) (Archived, error) {
	return archive(ctx, f, archiver{tw: tw, prefix: prefix}, mounts)
}

// Sink receives the entries of an archive, as a tar.Writer does.
type Sink interface {
	WriteHeader(*tar.Header) error
	io.Writer
}

// Stamp is of the state of a file: it is another one after each change of the content, the name or the permissions.
type Stamp struct {
	id      identity
	Changed time.Time
}

// ArchiveChanged is Files.Archive without the regular files, and further names of them, that are the same: same is called for
// each with its path. A stamp that is not older than fileClock when a file is read may also be that of a later state.
func ArchiveChanged(ctx context.Context, f *Files, to Sink, same func(path string, s Stamp) bool, mounts ...string) (Archived, error) {
	return archive(ctx, f, archiver{tw: to, same: same}, mounts)
}

func archive(ctx context.Context, f *Files, a archiver, mounts []string) (Archived, error) {
	a.files, a.seen = f, map[identity]string{}
	start, err := f.dirs.root()
	if err != nil {
		return a.done, err
	}
	w := walk{start: start, need: 0o500, unique: true}
	w.enter = func(name string) bool {
		if w.depth() == 1 && slices.Contains(mounts, name) {
			return false
		}
		return a.fits(w.path() + name)
	}
	var failed error
	w.opened = func(e entry) {
		if w.depth() > 0 && failed == nil {
			failed = a.header(&tar.Header{Typeflag: tar.TypeDir, Name: w.path(), Mode: int64(e.mode.Perm())})
		}
	}
	w.file = func(d *dir, name string, e entry) error {
		if failed != nil || !a.fits(w.path()+name) {
			return failed
		}
		return a.add(d, name, w.path()+name, e)
	}
	err = errors.Join(w.run(ctx), failed, a.unread)
	if w.missed {
		a.done.Skipped++
	}
	return a.done, err
}

type archiver struct {
	files  *Files
	tw     Sink
	prefix string
	same   func(path string, s Stamp) bool // nil: no file is
	seen   map[identity]string             // first names of files with several
	done   Archived
	unread error // of the first file that could not be read to its end
}

// fits reports whether a path is short enough to be restored.
func (a *archiver) fits(p string) bool {
	if len(p) > maxPath {
		a.done.Skipped++
		return false
	}
	return true
}

func (a *archiver) header(h *tar.Header) error {
	a.done.Files++
	h.Name, h.Format = a.prefix+h.Name, tar.FormatPAX
	return a.tw.WriteHeader(h)
}

func (a *archiver) add(d *dir, name, p string, e entry) error {
	switch e.mode.Type() {
	case 0:
	case fs.ModeSymlink:
		target, err := d.readLink(name)
		if err != nil {
			a.done.Skipped++
			return nil
		}
		return a.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: p, Linkname: target, Mode: 0o777})
	default:
		a.done.Skipped++
		return nil
	}
	if a.same != nil && a.same(p, Stamp{e.id, e.changed}) {
		if _, ok := a.seen[e.id]; !ok && e.links > 1 {
			a.seen[e.id] = p
		}
		a.done.Files++
		return nil
	}
	if first, ok := a.seen[e.id]; ok && e.links > 1 {
		return a.header(&tar.Header{Typeflag: tar.TypeLink, Name: p, Linkname: a.prefix + first, Mode: int64(e.mode.Perm())})
	}
	file, err := d.openUnreadable(name)
	if isNotExist(err) { // deleted in between
		return nil
	}
	if err != nil {
		a.done.Skipped++
		return nil
	}
	defer file.Close()
	if err := a.content(file, p, e); err != nil {
		return err
	}
	if e.links > 1 {
		a.seen[e.id] = p
	}
	return nil
}

func (a *archiver) content(file *os.File, p string, e entry) error {
	fi, err := file.Stat()
	if err != nil {
		return err
	}
	parts, err := segments(file, fi.Size())
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: p, Mode: int64(e.mode.Perm()), ModTime: fi.ModTime()}
	for _, s := range parts {
		h.Size += s.length
	}
	if h.Size != fi.Size() {
		h.PAXRecords = map[string]string{sparseSize: strconv.FormatInt(fi.Size(), 10), sparseParts: formatSegments(parts)}
	}
	if err := a.header(h); err != nil {
		return err
	}
	a.done.Bytes += h.Size
	for _, s := range parts {
		unread, err := copySegment(a.tw, file, s)
		if err != nil {
			return err
		}
		if unread != nil && a.unread == nil {
			a.unread = fault.Wrap(fault.Unavailable, unread, "the file %.80q of the workspace cannot be read", p)
		}
	}
	if now, err := file.Stat(); err != nil || now.Size() != fi.Size() || !now.ModTime().Equal(fi.ModTime()) {
		a.done.Changed++
	}
	return nil
}

// copySegment writes a segment. What cannot be read, or what a file that became shorter no longer
// has, is written as zeros, because the length is in the archive already.
func copySegment(to io.Writer, file io.ReaderAt, s segment) (unread, err error) {
	from := &readErrors{Reader: io.NewSectionReader(file, s.offset, s.length)}
	n, err := io.Copy(to, from)
	if err == nil && n < s.length {
		_, err = io.CopyN(to, zeros{}, s.length-n)
	}
	return from.err, err
}

// readErrors ends at the first error, which it keeps.
type readErrors struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err, err = err, io.EOF
	}
	return n, err
}

// zeros is an endless source of zero bytes.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// maxSegments limits the parts of a sparse file in an archive. Beyond it the smallest holes are
// filled.
const maxSegments = 10_000

// merge joins segments with holes below a growing limit, until few enough are left.
func merge(all []segment) []segment {
	for gap := int64(blockSize); len(all) > maxSegments; gap *= 2 {
		some := all[:1]
		for _, s := range all[1:] {
			last := &some[len(some)-1]
			if end := last.offset + last.length; s.offset-end <= gap {
				last.length = s.offset + s.length - last.offset
			} else {
				some = append(some, s)
			}
		}
		all = some
	}
	return all
}

func formatSegments(all []segment) string {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d+%d", s.offset, s.length)
	}
	return b.String()
}

// parseSegments returns the segments of a sparse file, which must be ascending, below its size,
// and have length bytes in all.
func parseSegments(h *tar.Header) (all []segment, size int64, err error) {
	size = h.Size
	text, ok := h.PAXRecords[sparseSize]
	if !ok {
		return []segment{{0, size}}, size, nil
	}
	if size, err = strconv.ParseInt(text, 10, 64); err != nil || size < h.Size {
		return nil, 0, errSegments
	}
	var end, total int64
	for one := range strings.SplitSeq(h.PAXRecords[sparseParts], ",") {
		if one == "" && h.Size == 0 {
			break
		}
		from, length, _ := strings.Cut(one, "+")
		var s segment
		s.offset, err = strconv.ParseInt(from, 10, 64)
		if err == nil {
			s.length, err = strconv.ParseInt(length, 10, 64)
		}
		if err != nil || s.offset < end || s.length <= 0 || s.length > size-s.offset {
			return nil, 0, errSegments
		}
		end, total, all = s.offset+s.length, total+s.length, append(all, s)
	}
	if total != h.Size {
		return nil, 0, errSegments
	}
	return all, size, nil
}

var errSegments = errors.New("the parts of a sparse file are not valid")

// archivedName returns the path of an entry relative to the workspace. It refuses every name that
// Archive does not write.
func archivedName(name string) (string, error) {
	p := strings.TrimSuffix(name, "/")
	if p == "" || p[0] == '/' || len(p) > maxPath || strings.ContainsRune(p, 0) || path.Clean(p) != p || p == "." || p == ".." ||
		strings.HasPrefix(p, "../") {
		return "", fmt.Errorf("the name %.80q is not allowed", name)
	}
	for element := range strings.SplitSeq(p, "/") {
		if len(element) > maxName {
			return "", fmt.Errorf("the name %.80q is too long", name)
		}
	}
	return p, nil
}
