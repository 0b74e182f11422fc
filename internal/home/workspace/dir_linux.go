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

// dir is an open directory. The names it is given are relative and clean; only
// openDir and openFile take more than one element.
type dir struct{ f *os.File }

// identity tells files apart, whatever their names.
type identity struct{ dev, ino uint64 }

// entry is what a name leads to, the link itself if it is one.
type entry struct {
	mode    fs.FileMode
	blocks  int64 // bytes on disk
	links   uint64
	id      identity
	changed time.Time // content, name or permissions; code cannot set it
}

const errNotDir = syscall.ENOTDIR

// The kernel itself refuses what a name must not do, so that no check of ours
// can be outrun by a rename.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openRoot opens a directory that the host has made.
func openRoot(path string) (*dir, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &dir{os.NewFile(uintptr(fd), "")}, nil
}

func (d *dir) fd() int { return int(d.f.Fd()) }

func (d *dir) Close() error { return d.f.Close() }

// openat2 opens a name beneath d. The kernel asks to try again if a rename
// anywhere came between.
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

// openDir leaves the access time of the directory as it is where it can: code
// would see from it where a walk is, and move things out of its way.
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

// openFile opens a regular file to read. O_NONBLOCK keeps a FIFO, a device or a
// file with a lease on it from holding us.
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

// names returns the next n names in d, io.EOF after the last.
func (d *dir) names(n int) ([]string, error) { return d.f.Readdirnames(n) }

func (d *dir) stat(name string) (entry, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return entry{}, err
	}
	return entryOf(&st), nil
}

func (d *dir) self() (entry, error) {
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

// version goes by ctime too, which code cannot set back.
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

// parent opens the directory that d is in now. Whoever asked has to compare it
// with what was expected: d may have been moved.
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

// allow adds permissions that d lacks. Where it cannot, what comes next fails
// and is told.
func (d *dir) allow(self entry, need fs.FileMode) {
	if perm := self.mode.Perm(); perm&need != need {
		unix.Fchmod(d.fd(), uint32(perm|need))
	}
}

// forceDir opens a directory that its permissions close. It is named by its
// descriptor while they change, so that nothing else can be put in its place.
func (d *dir) forceDir(name string) (*dir, error) {
	f := d.f
	if name != "." { // which cannot be looked up in a closed directory
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

// mkdir makes a directory unless the name is taken, and says whether it did.
func (d *dir) mkdir(name string) (made bool, err error) {
	err = unix.Mkdirat(d.fd(), name, 0o755)
	if err == unix.EEXIST {
		return false, nil
	}
	return err == nil, err
}

// give sets the owner, unless 0, and the permissions of d.
func (d *dir) give(owner int, perm fs.FileMode) error { return give(d.f, owner, perm) }

func give(f *os.File, owner int, perm fs.FileMode) error {
	if owner != 0 {
		if err := f.Chown(owner, owner); err != nil {
			return err
		}
	}
	return f.Chmod(perm)
}

// own gives a name to uid, the link itself if it is one.
func (d *dir) own(name string, uid int) error {
	return unix.Fchownat(d.fd(), name, uid, uid, unix.AT_SYMLINK_NOFOLLOW)
}

func (d *dir) remove(name string, isDir bool) error {
	if isDir {
		return unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(d.fd(), name, 0)
}

// rename fails if the new name is taken.
func (d *dir) rename(from, to string) error {
	return unix.Renameat2(d.fd(), from, d.fd(), to, unix.RENAME_NOREPLACE)
}

func (d *dir) sync() error { return d.f.Sync() }

// free returns the bytes that are free on the file system for others than root.
func (d *dir) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.fd(), &st); err != nil {
		return 0, err
	}
	return int64(min(st.Bavail, 1<<62/uint64(st.Bsize))) * st.Bsize, nil
}

// write puts content in place of whatever base is. The file gets a name only
// when it is whole and on disk.
func (d *dir) write(base string, content io.Reader, perm fs.FileMode, owner int, aside *dir) error {
	f, name, err := d.scratch()
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, content)
	if err == nil {
		err = give(f, owner, perm)
	}
	if err == nil {
		err = f.Sync()
	}
	switch {
	case err == nil && name == "":
		err = d.place(f, base, aside)
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

// place gives a file without a name the name base. Where that is taken the file
// needs another first, and keeps it if we are killed before the next call: so it
// gets it aside, where nobody looks.
func (d *dir) place(f *os.File, base string, aside *dir) error {
	link := func(to *dir, name string) error {
		return unix.Linkat(unix.AT_FDCWD, procPath(f), to.fd(), name, unix.AT_SYMLINK_FOLLOW)
	}
	err := link(d, base)
	if err != unix.EEXIST {
		return err
	}
	name := scratchName()
	if aside == nil {
		aside = d
	}
	if err = link(aside, name); err == unix.EXDEV {
		aside = d // another file system
		err = link(aside, name)
	}
	if err != nil {
		return err
	}
	if err = unix.Renameat(aside.fd(), name, d.fd(), base); err != nil {
		aside.remove(name, false)
	}
	return err
}

// scratch opens a new file without a name, of which nothing remains if we die;
// with one on file systems that cannot do that.
func (d *dir) scratch() (*os.File, string, error) {
	f, err := d.openat2(".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	if err != unix.EOPNOTSUPP && err != unix.EISDIR {
		return f, "", err
	}
	name := scratchName()
	f, err = d.openat2(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	return f, name, err
}

func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }
