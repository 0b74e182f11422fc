//go:build !linux

package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"
)

// dir is an open directory. Its methods take clean relative names; only openDir and openFile
// accept a name of more than one element. No sandbox runs on these systems yet, so no code
// changes the tree concurrently; os.Root confines names in any case.
type dir struct {
	root *os.Root
	list *os.File // opened by names
}

// identity identifies a file independently of its name. It is unknown on these systems.
type identity struct{}

// entry describes a directory entry; of a symbolic link, the link itself.
type entry struct {
	mode    fs.FileMode
	blocks  int64 // the size, as an estimate of the bytes on disk
	links   uint64
	id      identity
	changed time.Time // of the content
}

const errNotDir = syscall.ENOTDIR

func openRoot(path string) (*dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &dir{root: root}, nil
}

func (d *dir) Close() error {
	if d.list != nil {
		d.list.Close()
	}
	return d.root.Close()
}

// refuseLinks checks each element of name, because os.Root follows links that stay inside it.
func (d *dir) refuseLinks(name string) error {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		fi, err := d.root.Lstat(name[:i])
		if err != nil {
			return err
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			return errLink
		}
		if i < len(name) && !fi.IsDir() {
			return errNotDir
		}
	}
	return nil
}

func (d *dir) openDir(name string) (*dir, error) {
	if err := d.refuseLinks(name); err != nil {
		return nil, err
	}
	fi, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, errNotDir
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &dir{root: root}, nil
}

func (d *dir) openFile(name string) (*os.File, error) {
	if err := d.refuseLinks(name); err != nil {
		return nil, err
	}
	fi, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, notRegular(fi.Mode().Type())
	}
	return d.root.Open(name)
}

func version(fi fs.FileInfo) string { return fmt.Sprint(fi.Size(), fi.ModTime().UnixNano()) }

// names returns the next n names in d, and io.EOF after the last.
func (d *dir) names(n int) (_ []string, err error) {
	if d.list == nil {
		if d.list, err = d.root.Open("."); err != nil {
			return nil, err
		}
	}
	return d.list.Readdirnames(n)
}

func (d *dir) stat(name string) (entry, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return entry{}, err
	}
	return entry{mode: fi.Mode(), blocks: fi.Size(), links: 1, changed: fi.ModTime()}, nil
}

func (d *dir) statSelf() (entry, error) { return d.stat(".") }

// parent is unsupported: os.Root cannot open its parent.
func (d *dir) parent() (*dir, error) { return nil, errors.ErrUnsupported }

func (d *dir) addPermissions(entry, fs.FileMode) {}

func (d *dir) openClosedDir(name string) (*dir, error) {
	if err := d.root.Chmod(name, 0o700); err != nil {
		return nil, err
	}
	return d.openDir(name)
}

func (d *dir) mkdir(name string) error { return d.root.Mkdir(name, 0o755) }

// setOwnerAndMode sets the permissions of d. The daemon owns all files on these systems.
func (d *dir) setOwnerAndMode(_ int, perm fs.FileMode) error { return d.root.Chmod(".", perm) }

func (d *dir) chown(string, int) error { return errors.ErrUnsupported }

func (d *dir) remove(name string, _ bool) error { return d.root.Remove(name) }

// rename fails if the new name exists.
func (d *dir) rename(from, to string) error {
	if _, err := d.root.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return d.root.Rename(from, to)
}

// sync does nothing: some of these systems cannot sync a directory.
func (d *dir) sync() error { return nil }

// writeFile creates or replaces base when the new content is complete.
func writeFile(d *dir, base string, content io.Reader, perm fs.FileMode, _ int, _ *dir) error {
	name := scratchName()
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = d.root.Rename(name, base)
	}
	if err != nil {
		d.root.Remove(name)
	}
	return err
}

// freeBytes returns a number above every reserve: the free space is not measured on these systems,
// where no sandbox runs.
func freeBytes(*dir) (int64, error) { return math.MaxInt64, nil }

// syncFileSystem does nothing: these systems sync files later.
func syncFileSystem(*dir) error { return nil }

// readLink returns the target of a symbolic link.
func (d *dir) readLink(name string) (string, error) { return d.root.Readlink(name) }

// openUnreadable is openFile: permissions are not changed on these systems.
func (d *dir) openUnreadable(name string) (*os.File, error) { return d.openFile(name) }

// segments returns the whole file: holes are not found on these systems.
func segments(_ *os.File, size int64) ([]segment, error) { return []segment{{0, size}}, nil }
