package fault

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// shortage is something of which the process or the machine has too little at the moment. Message,
// Hint and KindOf report it for any operation that failed because of it.
type shortage struct{ message, hint string }

// diskFault returns the Error of a disk with which an operation failed that has no Error of its own, or
// nil.
func diskFault(err error) *Error {
	for _, d := range []struct {
		errs          []error
		kind          Kind
		message, hint string
	}{
		{[]error{syscall.ENOSPC, syscall.EDQUOT}, Exhausted, "the disk of the machine that runs Sandpiper is full",
			"ask the operator to free disk space"},
		{[]error{syscall.EIO}, Unavailable, "the disk of the machine that runs Sandpiper failed (input/output error)",
			"ask the operator to check the disk of the data directory"},
		{[]error{syscall.EROFS}, Unavailable, "the disk of the machine that runs Sandpiper is read-only",
			"ask the operator to make the data directory writable"},
	} {
		for _, e := range d.errs {
			if errors.Is(err, e) {
				return &Error{Kind: d.kind, Message: d.message, Hint: d.hint}
			}
		}
	}
	return nil
}

var (
	noDescriptors = &shortage{"Sandpiper has no free file descriptors (too many open files)",
		"try again in a moment; if it lasts, raise the limit on open files of the daemon (ulimit -n, LimitNOFILE of a service)"}
	noProcesses = &shortage{"no process can be started (the limit on processes is reached)",
		"try again in a moment; if it lasts, raise the limit on processes of the daemon (TasksMax of a service, pids.max of a container, " +
			"ulimit -u)"}
	noMemory = &shortage{"there is no free memory",
		"try again in a moment; if it lasts, raise the memory limit of the daemon (MemoryMax of a service)"}
)

// shortageOf returns the shortage that an error reports, or nil.
func shortageOf(err error) *shortage {
	start, _ := errors.AsType[*fs.PathError](err)
	switch {
	case NoDescriptors(err):
		return noDescriptors
	case start != nil && start.Op == "fork/exec" && errors.Is(start.Err, syscall.EAGAIN):
		return noProcesses
	case errors.Is(err, syscall.ENOMEM):
		return noMemory
	}
	return nil
}

// NoDescriptors reports whether err means that the process (EMFILE) or the machine
// (ENFILE) has no free file descriptors. The shortage usually ends within moments.
func NoDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Inconclusive reports whether an operation on a file, or the start of a process, failed for a reason
// that implies nothing about the file or the host: it may be complete, and work later. A caller must not
// replace the file or suggest that it be replaced.
func Inconclusive(err error) bool {
	for _, e := range []error{syscall.EIO, syscall.EINTR, syscall.EAGAIN, syscall.ETIMEDOUT, syscall.EBUSY, os.ErrDeadlineExceeded,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return shortageOf(err) != nil
}

// append adds the shortage to a message that does not mention it.
func (s *shortage) append(message string) string {
	if strings.Contains(message, s.message) {
		return message
	}
	return message + ": " + s.message
}
