package fault

import (
	"errors"
	"strings"
	"syscall"
)

// noDescriptors is part of the message of every error that NoDescriptors reports.
const (
	noDescriptors     = "Sandpiper has no free file descriptors (too many open files)"
	noDescriptorsHint = "try again in a moment; if it lasts, raise the limit on open files of the daemon (ulimit -n, LimitNOFILE of a service)"
)

// NoDescriptors reports whether err is of a process, or a machine, that has no free
// descriptors. It is mostly over in a moment. Message, Hint and KindOf name it,
// whatever the operation was that failed of it.
func NoDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// named adds the shortage to a message that does not have it.
func named(message string) string {
	if strings.Contains(message, noDescriptors) {
		return message
	}
	return message + ": " + noDescriptors
}
