package main

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The capabilities of a daemon as root. It has no others while it serves, and programs that it
// starts cannot gain others.
// the files of tenants have uids of their own
const servingCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER |
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETFCAP | // id maps of user namespaces; the uid of confined processes
	1<<unix.CAP_KILL | 1<<unix.CAP_SYS_NICE | // signals to processes with these uids, and their priorities
	1<<unix.CAP_SYS_RESOURCE // pipes beyond fs.pipe-user-pages-soft, descriptors in flight beyond RLIMIT_NOFILE

// startCapabilities are those until the daemon listens.
const startCapabilities = servingCapabilities | 1<<unix.CAP_NET_BIND_SERVICE

// limitCapabilities removes from this process all capabilities that keep lacks, and from its
// bounding set all that servingCapabilities lacks.
func limitCapabilities(keep uint64) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if sets[0].Effective&(1<<unix.CAP_SETPCAP) != 0 { // else it cannot change the bounding set
		if err := limitBoundingSet(); err != nil {
			return err
		}
	}
	for i := range sets {
		part := uint32(keep >> (32 * i))
		sets[i] = unix.CapUserData{Effective: sets[i].Effective & part, Permitted: sets[i].Permitted & part}
	}
	return ofAllThreads("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&sets[0])))
}

func limitBoundingSet() error {
	for c := range uintptr(64) {
		if servingCapabilities>>c&1 == 1 {
			continue
		}
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil { // the kernel has no more
			return nil
		}
		if has == 0 {
			continue
		}
		if err := ofAllThreads("dropping a capability of the bounding set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c); err != nil {
			return err
		}
	}
	return nil
}

// ofAllThreads makes a system call in every thread, since capabilities are those of a thread. A
// build with cgo, which releases are not, cannot: it keeps its capabilities.
//
//go:uintptrescapes
func ofAllThreads(what string, call, a, b uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, 0); errno != 0 && !errors.Is(errno, unix.ENOTSUP) {
		return fmt.Errorf("%s: %w", what, errno)
	}
	return nil
}
