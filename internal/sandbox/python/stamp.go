//go:build linux && (amd64 || arm64)

package python

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// stamp records a valid install. state is a hash of the name, type, mode, owner,
// inode, size, mtime and ctime of all its files and its manifest. Every write changes
// the ctime, and users cannot set it. So while the state is unchanged, the files
// are too, and 50 MB need not be hashed at each start. Otherwise the files are
// compared with the manifest, if that has the recorded hash.
type stamp struct {
	state    string
	manifest string // SHA-256
}

func readStamp(dir string) (stamp, error) {
	data, err := os.ReadFile(filepath.Join(dir, stampName))
	if err != nil {
		return stamp{}, err
	}
	var s stamp
	_, err = fmt.Sscan(string(data), &s.state, &s.manifest)
	return s, err
}

func writeStamp(name string, s stamp) error {
	return os.WriteFile(name, []byte(s.state+" "+s.manifest+"\n"), 0o644)
}

// stampOf returns the state of the install in dir.
func stampOf(dir string) (string, error) {
	h := sha256.New()
	add := func(name string, st *unix.Stat_t) { h.Write(appendStat(nil, name, st)) }
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, manifestName), &st); err != nil {
		return "", &fs.PathError{Op: "lstat", Path: manifestName, Err: err}
	}
	add(manifestName, &st)
	if err := walk(filepath.Join(dir, rootName), add); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func appendStat(b []byte, name string, st *unix.Stat_t) []byte {
	b = append(append(b, name...), 0)
	fields := []int64{int64(st.Mode), int64(st.Uid), int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		fields = fields[:3] // the other fields reflect changes of entries, which are compared themselves
	}
	for _, f := range fields {
		b = binary.LittleEndian.AppendUint64(b, uint64(f))
	}
	return b
}

// walk visits all files below root in a fixed order without following symbolic links.
func walk(root string, visit func(name string, st *unix.Stat_t)) error {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: root, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return &fs.PathError{Op: "stat", Path: root, Err: err}
	}
	visit(".", &st)
	return walkDir(fd, "", visit)
}

// walkDir visits the entries of the directory fd, and closes it.
func walkDir(fd int, prefix string, visit func(string, *unix.Stat_t)) error {
	dir := os.NewFile(uintptr(fd), prefix)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &fs.PathError{Op: "stat", Path: prefix + name, Err: err}
		}
		visit(prefix+name, &st)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: prefix + name, Err: err}
		}
		if err := walkDir(sub, prefix+name+"/", visit); err != nil {
			return err
		}
	}
	return nil
}
