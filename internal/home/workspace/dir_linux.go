package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dir is an open directory. Its methods take clean relative names; only openDir and openFile
// accept a name of more than one element.
type dir struct{ f *os.File }

// identity identifies a file independently of its name.
type identity struct{ dev, ino uint64 }

// entry describes a directory entry; of a symbolic link, the link itself.
type entry struct {
	mode    fs.FileMode
	blocks  int64 // bytes on disk
	links   uint64
	id      identity
	changed time.Time // ctime: of the content, name or permissions; code cannot set it
}

const errNotDir = syscall.ENOTDIR

// resolve makes the kernel refuse names that leave the directory or contain a link, because a
// check of ours could race with a rename.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openRoot opens a directory that the host created.
func openRoot(path string) (*dir, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &dir{os.NewFile(uintptr(fd), "")}, nil
}

func (d *dir) fd() int { return int(d.f.Fd()) }

func (d *dir) Close() error { return d.f.Close() }

// openat2 opens a name below d. It retries on EAGAIN, which the kernel returns after any
// concurrent rename.
func (d *dir) openat2(name string, flags int, mode uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: mode, Resolve: resolve}
	fd, err := -1, error(unix.EAGAIN)
	for try := 0; try < 128 && (err == unix.EAGAIN || err == unix.EINTR); try++ {
		fd, err = unix.Openat2(d.fd(), name, &how)
	}
	if err == unix.ELOOP {
		return nil, errLink
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), ""), nil
}

// openDir opens a directory without updating its access time, if permitted: code could follow
// a walk by the access times and move entries out of its way.
func (d *dir) openDir(name string) (*dir, error) {
	f, err := d.openat2(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		f, err = d.openat2(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, err
	}
	return &dir{f}, nil
}

// openFile opens a regular file for reading. O_NONBLOCK avoids blocking on a FIFO, a device or a
// leased file.
func (d *dir) openFile(name string) (*os.File, error) {
	f, err := d.openat2(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil, notRegular(fs.ModeSocket)
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = notRegular(fi.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// names returns the next n names in d, and io.EOF after the last.
func (d *dir) names(n int) ([]string, error) { return d.f.Readdirnames(n) }

func (d *dir) stat(name string) (entry, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return entry{}, err
	}
	return entryOf(&st), nil
}

func (d *dir) statSelf() (entry, error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil {
		return entry{}, err
	}
	return entryOf(&st), nil
}

func entryOf(st *unix.Stat_t) entry {
	return entry{
		mode:    fileMode(st.Mode),
		blocks:  st.Blocks * 512,
		links:   uint64(st.Nlink),
		id:      identity{st.Dev, st.Ino},
		changed: time.Unix(st.Ctim.Unix()),
	}
}

// version includes the ctime, which code cannot reset.
func version(fi fs.FileInfo) string {
	st := fi.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

func fileMode(m uint32) fs.FileMode {
	perm := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
		return perm
	case unix.S_IFDIR:
		return perm | fs.ModeDir
	case unix.S_IFLNK:
		return perm | fs.ModeSymlink
	case unix.S_IFIFO:
		return perm | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return perm | fs.ModeSocket
	case unix.S_IFBLK, unix.S_IFCHR:
		return perm | fs.ModeDevice
	}
	return perm | fs.ModeIrregular
}

// parent opens the current parent of d. d may have been moved, so the caller must check the
// identity of the parent.
func (d *dir) parent() (*dir, error) {
	fd, err := unix.Openat(d.fd(), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		fd, err = unix.Openat(d.fd(), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, err
	}
	return &dir{os.NewFile(uintptr(fd), "")}, nil
}

// addPermissions adds permissions that d lacks. It ignores errors, because the next operation
// on d then fails and reports them.
func (d *dir) addPermissions(self entry, need fs.FileMode) {
	if perm := self.mode.Perm(); perm&need != need {
		unix.Fchmod(d.fd(), uint32(perm|need))
	}
}

// openClosedDir opens a directory after adding permissions for its owner. It changes them through
// the descriptor, so that no other entry can take the name in between.
func (d *dir) openClosedDir(name string) (*dir, error) {
	f := d.f
	if name != "." { // cannot be looked up in a closed directory
		var err error
		if f, err = d.openat2(name, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	if err := unix.Chmod(procPath(f), 0o700); err != nil {
		return nil, err
	}
	return d.openDir(name)
}

func (d *dir) mkdir(name string) error { return unix.Mkdirat(d.fd(), name, 0o755) }

// setOwnerAndMode sets the permissions of d and, unless it is 0, the owner.
func (d *dir) setOwnerAndMode(owner int, perm fs.FileMode) error {
	return setOwnerAndMode(d.f, owner, perm)
}

func setOwnerAndMode(f *os.File, owner int, perm fs.FileMode) error {
	if owner != 0 {
		if err := f.Chown(owner, owner); err != nil {
			return err
		}
	}
	return f.Chmod(perm)
}

// chown changes the owner of name, without following a link.
func (d *dir) chown(name string, uid int) error {
	return unix.Fchownat(d.fd(), name, uid, uid, unix.AT_SYMLINK_NOFOLLOW)
}

func (d *dir) remove(name string, isDir bool) error {
	if isDir {
		return unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(d.fd(), name, 0)
}

// rename fails if the new name exists.
func (d *dir) rename(from, to string) error {
	return unix.Renameat2(d.fd(), from, d.fd(), to, unix.RENAME_NOREPLACE)
}

func (d *dir) sync() error { return d.f.Sync() }

// freeBytes returns the free bytes of the file system that are available to ordinary users.
func freeBytes(d *dir) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.fd(), &st); err != nil {
		return 0, err
	}
	return int64(min(st.Bavail, 1<<62/uint64(st.Bsize))) * st.Bsize, nil
}

// writeFile creates or replaces base. The file gets its name only when it is complete and on disk.
func writeFile(d *dir, base string, content io.Reader, perm fs.FileMode, owner int, staging *dir) error {
	f, name, err := createScratch(d)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, content)
	if err == nil {
		err = setOwnerAndMode(f, owner, perm)
	}
	if err == nil {
		err = f.Sync()
	}
	switch {
	case err == nil && name == "":
		err = linkScratch(d, f, base, staging)
	case err == nil:
		err = unix.Renameat(d.fd(), name, d.fd(), base)
	}
	if err != nil {
		if name != "" {
			d.remove(name, false)
		}
		return err
	}
	return d.sync()
}

// linkScratch names an unnamed file base. To replace an existing file it needs a temporary name first,
// which remains if the daemon is killed before the rename; that name is created in staging.
func linkScratch(d *dir, f *os.File, base string, staging *dir) error {
	link := func(to *dir, name string) error {
		return unix.Linkat(unix.AT_FDCWD, procPath(f), to.fd(), name, unix.AT_SYMLINK_FOLLOW)
	}
	err := link(d, base)
	if err != unix.EEXIST {
		return err
	}
	name := scratchName()
	if staging == nil {
		staging = d
	}
	if err = link(staging, name); err == unix.EXDEV {
		staging = d // another file system
		err = link(staging, name)
	}
	if err != nil {
		return err
	}
	if err = unix.Renameat(staging.fd(), name, d.fd(), base); err != nil {
		staging.remove(name, false)
	}
	return err
}

// createScratch creates an unnamed file, which disappears if the daemon is killed. On file systems
// without O_TMPFILE the file has a name.
func createScratch(d *dir) (*os.File, string, error) {
	f, err := d.openat2(".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	if err != unix.EOPNOTSUPP && err != unix.EISDIR {
		return f, "", err
	}
	name := scratchName()
	f, err = d.openat2(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	return f, name, err
}

func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// syncFileSystem syncs the file system of d.
func syncFileSystem(d *dir) error {
	self, err := d.openDir(".") // d may be opened with O_PATH
	if err != nil {
		return err
	}
	defer self.Close()
	return unix.Syncfs(self.fd())
}

// readLink returns the target of a symbolic link.
func (d *dir) readLink(name string) (string, error) {
	b := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(d.fd(), name, b)
	if err == nil && n > maxPath {
		err = unix.ENAMETOOLONG
	}
	return string(b[:max(0, n)]), err
}

// openUnreadable is openFile for a file that its owner may not read. It restores the permissions.
func (d *dir) openUnreadable(name string) (*os.File, error) {
	f, err := d.openFile(name)
	if !errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	at, err := d.openat2(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	e, err := d.stat(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Chmod(procPath(at), uint32(e.mode.Perm()|0o400)); err != nil {
		return nil, err
	}
	defer unix.Chmod(procPath(at), uint32(e.mode.Perm()))
	return d.openFile(name)
}

// segments returns the parts of a file that are not holes.
func segments(f *os.File, size int64) (all []segment, err error) {
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO { // the rest is a hole
			break
		}
		if err == unix.EINVAL { // the file system has no holes
			return []segment{{0, size}}, nil
		}
		if err != nil {
			return nil, err
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err == unix.ENXIO { // the file was truncated in between
			break
		}
		if err != nil {
			return nil, err
		}
		to = min(to, size)
		if to > from {
			all = append(all, segment{from, to - from})
		}
		at = max(to, at+1)
	}
	return merge(all), nil
}
