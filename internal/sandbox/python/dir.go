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

// otherDirHint is the remedy for an unsuitable directory.
const otherDirHint = "set XDG_CACHE_HOME to a directory that you own"

// cacheDir creates dir if it does not exist and returns its real path. It refuses a
// path on which another user could exchange files after they were verified. Others
// may read it: an image may contain an install of root that an ordinary user runs.
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
	if err := checkOwner(real); err != nil {
		return "", explain(dir, err)
	}
	for up := filepath.Dir(real); ; up = filepath.Dir(up) {
		if err := checkParent(up); err != nil {
			return "", explain(dir, err)
		}
		if up == "/" {
			return real, nil
		}
	}
}

// checkOwner fails unless dir is a directory that only the current user and root can
// write to.
func checkOwner(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	case !trusted(st.Uid):
		return fault.New(fault.Unavailable, "the cache directory %s belongs to uid %d, which could modify the Python in it; it must "+
			"belong to uid %d or root", dir, st.Uid, os.Geteuid()).
			WithHint(otherDirHint)
	case st.Mode&0o022 != 0:
		return fault.New(fault.Unavailable, "other users can write to the cache directory %s (mode %04o) and modify the Python in it", dir,
			st.Mode&0o7777).
			WithHint("chmod go-w %s, or %s", dir, otherDirHint)
	}
	return nil
}

// checkParent fails if another user can rename the entries of dir.
func checkParent(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	// In a user namespace the host's root has the overflow uid.
	const overflow = 65534
	foreign := !trusted(st.Uid) && st.Uid != overflow
	if foreign || st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fault.New(fault.Unavailable, "other users can rename the entries of %s (uid %d, mode %04o), which contains the cache "+
			"directory of Python", dir, st.Uid, st.Mode&0o7777).
			WithHint(otherDirHint)
	}
	return nil
}

// trusted reports whether files of uid may be run: it is root or the current user.
func trusted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// explain converts an error of an installation in dir to a fault.
func explain(dir string, err error) error {
	var known *fault.Error
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return fault.Wrap(fault.Exhausted, err, "the disk is full: Python needs 60 MB in %s", dir).
			WithHint("free some space there, or %s on a disk with free space", otherDirHint)
	case errors.Is(err, unix.ENOTDIR):
		return fault.Wrap(fault.Unavailable, err, "%s is not a directory or not in one, so Python cannot be installed there", dir).
			WithHint(otherDirHint)
	case readOnly(err):
		return fault.Wrap(fault.Unavailable, err, "Python cannot be installed in %s: Sandpiper may not write there", dir).
			WithHint("make it writable, or %s", otherDirHint)
	}
	return fault.Wrap(fault.Internal, err, "Python cannot be installed in %s", dir).
		WithHint("the log contains the cause; try to %s", otherDirHint)
}

func readOnly(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// cannotStart returns the fault for an undamaged interpreter that does not start.
func cannotStart(err error, output []byte, dir string) error {
	if errors.Is(err, unix.EACCES) {
		return fault.Wrap(fault.Unavailable, err, "Python may not be executed in %s, perhaps because the file system is mounted noexec",
			dir).
			WithHint("set XDG_CACHE_HOME to a directory where programs may be executed")
	}
	if fault.Inconclusive(err) {
		return fault.Wrap(fault.Unavailable, err, "no process can be started for Python").
			WithHint("wait until other processes have ended; if it lasts, raise the limits on processes and memory of the service")
	}
	return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %s", err, output), "the embedded Python %s does not start on this host", Version).
		WithHint("it needs Linux with glibc; the log contains its error output")
}
