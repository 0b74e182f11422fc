package workspace

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Extraction creates a workspace from the entries of an archive, in a directory that no code
// sees yet. Each entry must be new, and in a directory that was an entry before.
type Extraction struct {
	files *Files // measures free space, and syncs
	root  *os.Root
	done  Archived
	used  amount
	// links are created last, so that no other entry is created through one.
	links []*tar.Header
	modes []*tar.Header // of directories, set after their content is complete
}

// NewExtraction returns an Extraction into an empty directory. Entries beyond the quota are
// refused.
func NewExtraction(dir string, q Quota) (*Extraction, error) {
	files, err := Open(Config{Dir: dir, Quota: q})
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return &Extraction{files: files, root: root}, nil
}

// Close closes the directory.
func (x *Extraction) Close() error { return errors.Join(x.root.Close(), x.files.Close()) }

// Add creates an entry whose name in the archive has the given prefix.
func (x *Extraction) Add(h *tar.Header, prefix string, content io.Reader) error {
	rest, ok := strings.CutPrefix(h.Name, prefix)
	if !ok {
		return fmt.Errorf("the name %.80q is not allowed", h.Name)
	}
	p, err := archivedName(rest)
	if err != nil {
		return err
	}
	x.done.Files++
	if err := x.count(amount{files: 1}); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		x.modes = append(x.modes, &tar.Header{Name: p, Mode: h.Mode})
		if err = x.count(amount{bytes: blockSize}); err == nil {
			err = x.root.Mkdir(p, 0o700)
		}
	case tar.TypeReg:
		err = x.file(h, p, content)
	case tar.TypeLink:
		var target string
		if target, err = archivedName(strings.TrimPrefix(h.Linkname, prefix)); err == nil {
			err = x.root.Link(target, p)
		}
	case tar.TypeSymlink:
		if h.Linkname == "" || strings.ContainsRune(h.Linkname, 0) || len(h.Linkname) > maxPath {
			return fmt.Errorf("the link %.80q is not valid", p)
		}
		x.links = append(x.links, &tar.Header{Name: p, Linkname: h.Linkname})
	default:
		err = fmt.Errorf("%.80q is a %q, which is not allowed", p, h.Typeflag)
	}
	return err
}

// count counts what an entry needs, up to the quota.
func (x *Extraction) count(more amount) error {
	x.used.bytes, x.used.files = x.used.bytes+more.bytes, x.used.files+more.files
	if x.files.quota.over(Usage{Bytes: x.used.bytes, Files: x.used.files}, amount{}, amount{}) {
		return fault.New(fault.Exhausted, "the workspace in the export is larger than the quota here, %s", x.files.quota).
			WithHint("raise workspace.max_mb or workspace.max_files for the tenant")
	}
	return nil
}

// String describes the limits.
func (q Quota) String() string {
	return fmt.Sprintf("%d MB and %d files", q.Bytes>>20, q.Files)
}

func (x *Extraction) file(h *tar.Header, p string, content io.Reader) error {
	parts, size, err := parseSegments(h)
	if err != nil {
		return err
	}
	if err := x.count(amount{bytes: blocksFor(h.Size)}); err != nil {
		return err
	}
	if err := x.files.CheckReserve(h.Size); err != nil {
		return err
	}
	f, err := x.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	x.done.Bytes += h.Size
	for _, s := range parts {
		if err == nil {
			_, err = io.CopyN(io.NewOffsetWriter(f, s.offset), content, s.length)
		}
	}
	if err == nil && h.PAXRecords[sparseSize] != "" {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Chmod(permissions(h))
	}
	if err = errors.Join(err, f.Close()); err == nil && !h.ModTime.IsZero() {
		err = x.root.Chtimes(p, time.Time{}, h.ModTime)
	}
	return err
}

// permissions returns the permissions of an entry, without those that let others than the owner
// write: the source of the archive is not trusted.
func permissions(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode) & 0o755 }

// Finish creates the links, sets the permissions of directories, and syncs everything.
func (x *Extraction) Finish() (Archived, error) {
	for _, l := range x.links {
		if fi, err := x.root.Lstat(path.Dir(l.Name)); err != nil || !fi.IsDir() {
			return x.done, fmt.Errorf("the link %.80q is not in a directory", l.Name)
		}
		if err := x.root.Symlink(l.Linkname, l.Name); err != nil {
			return x.done, err
		}
	}
	for _, d := range slices.Backward(x.modes) { // a directory without permissions hides those in it
		if err := x.root.Chmod(d.Name, permissions(d)); err != nil {
			return x.done, err
		}
	}
	d, err := x.files.dirs.root()
	if err != nil {
		return x.done, err
	}
	return x.done, syncFileSystem(d)
}

// CheckReserve is Files.CheckReserve for the directory.
func (x *Extraction) CheckReserve(more int64) error { return x.files.CheckReserve(more) }
