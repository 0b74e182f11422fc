//go:build linux && (amd64 || arm64)

package python

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// elsewhere is the hint for a directory that will not do.
const elsewhere = "set XDG_CACHE_HOME to a directory of yours"

// cacheDir makes dir if need be and returns its real path. It refuses one in
// which, or on the way to which, somebody else could exchange files after they
// were verified. Being read by others does no harm: an image may carry an
// install of root's that an ordinary user runs.
func cacheDir(dir string) (string, error) {
	if dir == "" {
		return "", fault.New(fault.Invalid, "the cache directory for Python is empty; it must be a path")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", explain(dir, err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", explain(dir, err)
	}
	if err := onlyOurs(real); err != nil {
		return "", explain(dir, err)
	}
	for up := filepath.Dir(real); ; up = filepath.Dir(up) {
		if err := onlyOursToRename(up); err != nil {
			return "", explain(dir, err)
		}
		if up == "/" {
			return real, nil
		}
	}
}

// onlyOurs fails unless dir is a directory that nobody but us and root may
// write to.
func onlyOurs(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	case !trusted(st.Uid):
		return fault.New(fault.Unavailable, "the cache directory %s belongs to uid %d, who could change the Python in it; it must belong to uid %d or root", dir, st.Uid, os.Geteuid()).
			WithHint(elsewhere)
	case st.Mode&0o022 != 0:
		return fault.New(fault.Unavailable, "others may write to the cache directory %s (mode %04o) and change the Python in it", dir, st.Mode&0o7777).
			WithHint("chmod go-w %s, or %s", dir, elsewhere)
	}
	return nil
}

// onlyOursToRename fails if somebody else may rename what lies in dir.
func onlyOursToRename(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	// In a user namespace the host's root shows as the overflow uid.
	const overflow = 65534
	foreign := !trusted(st.Uid) && st.Uid != overflow
	if foreign || st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fault.New(fault.Unavailable, "others may exchange what lies in %s (uid %d, mode %04o), the cache directory of Python too", dir, st.Uid, st.Mode&0o7777).
			WithHint(elsewhere)
	}
	return nil
}

// trusted reports whether a file of uid's may be run: ours and root's.
func trusted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// explain says what an error means for the person who wants Python in dir.
func explain(dir string, err error) error {
	var known *fault.Error
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return fault.Wrap(fault.Exhausted, err, "the disk is full: Python needs 60 MB in %s", dir).
			WithHint("free some space there, or %s with room", elsewhere)
	case errors.Is(err, unix.ENOTDIR):
		return fault.Wrap(fault.Unavailable, err, "%s is not a directory or not in one, so Python cannot be installed there", dir).WithHint(elsewhere)
	case readOnly(err):
		return fault.Wrap(fault.Unavailable, err, "Python cannot be installed in %s, because we may not write there", dir).
			WithHint("make it writable, or %s", elsewhere)
	}
	return fault.Wrap(fault.Internal, err, "installing Python in %s did not work", dir).
		WithHint("the log says why; %s may help", elsewhere)
}

func readOnly(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// cannotStart says why the interpreter, whole as it is, does not run here.
func cannotStart(err error, output []byte, dir string) error {
	if errors.Is(err, unix.EACCES) {
		return fault.Wrap(fault.Unavailable, err, "Python may not be executed in %s, perhaps because the file system is mounted noexec", dir).
			WithHint("set XDG_CACHE_HOME to a directory where programs may be executed")
	}
	return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %s", err, output), "the embedded Python %s does not start on this host", Version).
		WithHint("it needs Linux with glibc; the log says what it complained about")
}
