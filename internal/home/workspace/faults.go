package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// notRegular is the error for an entry that is not a regular file; its value is the file type.
type notRegular fs.FileMode

func (t notRegular) Error() string {
	switch m := fs.FileMode(t); {
	case m&fs.ModeDir != 0:
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	default:
		return "a special file"
	}
}

// errLink is the error for a symbolic link anywhere in a path.
const errLink = notRegular(fs.ModeSymlink)

// explain wraps an error for name in a fault with a message for the caller.
func explain(name string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	say := func(kind fault.Kind, format string) error {
		return fault.Wrap(kind, err, format, fault.Quoted(name))
	}
	if t, ok := errors.AsType[notRegular](err); ok {
		if t == errLink {
			return say(fault.Denied, "%s is a symbolic link or leads through one: links are not followed, name the file itself")
		}
		return fault.Wrap(fault.Invalid, err, "%s is %s, not a file", fault.Quoted(name), t.Error())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return say(fault.NotFound, "there is no %s in the workspace")
	case errors.Is(err, syscall.ENOTDIR):
		return say(fault.Invalid, "a part of %s before its last slash is a file, not a directory")
	case errors.Is(err, syscall.ENAMETOOLONG):
		return say(fault.Invalid, "the name %s is too long")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(fault.Unavailable, err, "the disk of the machine that runs Sandpiper is full: %s was not written",
			fault.Quoted(name)).
			WithHint("this is not your quota: ask the operator to free disk space")
	case errors.Is(err, syscall.EIO):
		return fault.Wrap(fault.Unavailable, err, "the disk of the machine that runs Sandpiper failed: %s could not be read or written",
			fault.Quoted(name)).
			WithHint("ask the operator to check the disk")
	case errors.Is(err, syscall.EROFS):
		return say(fault.Unavailable, "%s cannot be changed: the disk is read-only")
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EBUSY):
		return say(fault.Unavailable, "%s is being changed or held by code that runs now; try again")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EXDEV):
		return say(fault.Denied, "the permissions of %s forbid it")
	}
	return say(fault.Internal, "%s could not be reached")
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
func isExist(err error) bool    { return errors.Is(err, fs.ErrExist) }

// isUnusable reports whether err means that an entry is missing or is not an accessible
// directory.
func isUnusable(err error) bool {
	_, planted := errors.AsType[notRegular](err)
	return planted || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) || isNotExist(err)
}

// bytesText formats a number of bytes with a unit.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
