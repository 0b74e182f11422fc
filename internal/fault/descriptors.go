package fault

import (
	"errors"
	"strings"
	"syscall"
)

// noDescriptors is part of the message of every error for which NoDescriptors returns true.
const (
	noDescriptors     = "Sandpiper has no free file descriptors (too many open files)"
	noDescriptorsHint = "try again in a moment; if it lasts, raise the limit on open files of the daemon (ulimit -n, LimitNOFILE of a service)"
)

// NoDescriptors reports whether err means that the process (EMFILE) or the machine
// (ENFILE) has no free file descriptors. The shortage usually ends within moments.
// Message, Hint and KindOf report it for any operation that failed because of it.
func NoDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// withNoDescriptors appends the shortage to a message that does not mention it.
func withNoDescriptors(message string) string {
	if strings.Contains(message, noDescriptors) {
		return message
	}
	return message + ": " + noDescriptors
}
