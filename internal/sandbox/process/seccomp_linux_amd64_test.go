package process

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// instead maps each call that only amd64 has to the calls that libc makes on other
// architectures, such as arm64. Nil means that they have or need no such call.
var instead = map[int][]int{
	unix.SYS_STAT: nil, unix.SYS_LSTAT: nil, unix.SYS_NEWFSTATAT: nil, // fstatat
	unix.SYS_GETRLIMIT: nil, unix.SYS_SETRLIMIT: nil,
	unix.SYS_ARCH_PRCTL: nil, // the thread pointer is an ordinary register there

	unix.SYS_OPEN: {unix.SYS_OPENAT}, unix.SYS_CREAT: {unix.SYS_OPENAT}, unix.SYS_MKDIR: {unix.SYS_MKDIRAT},
	unix.SYS_CHMOD: {unix.SYS_FCHMODAT}, unix.SYS_ACCESS: {unix.SYS_FACCESSAT}, unix.SYS_READLINK: {unix.SYS_READLINKAT},
	unix.SYS_RENAME: {unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2}, unix.SYS_RMDIR: {unix.SYS_UNLINKAT}, unix.SYS_UNLINK: {unix.SYS_UNLINKAT},
	unix.SYS_LINK: {unix.SYS_LINKAT}, unix.SYS_SYMLINK: {unix.SYS_SYMLINKAT}, unix.SYS_CHOWN: {unix.SYS_FCHOWNAT}, unix.SYS_LCHOWN: {unix.SYS_FCHOWNAT},
	unix.SYS_UTIME: {unix.SYS_UTIMENSAT}, unix.SYS_UTIMES: {unix.SYS_UTIMENSAT}, unix.SYS_FUTIMESAT: {unix.SYS_UTIMENSAT},
	unix.SYS_GETDENTS: {unix.SYS_GETDENTS64},
	unix.SYS_FORK:     {unix.SYS_CLONE}, unix.SYS_VFORK: {unix.SYS_CLONE}, unix.SYS_GETPGRP: {unix.SYS_GETPGID},
	unix.SYS_POLL: {unix.SYS_PPOLL}, unix.SYS_SELECT: {unix.SYS_PSELECT6}, unix.SYS_PAUSE: {unix.SYS_PPOLL},
	unix.SYS_EVENTFD: {unix.SYS_EVENTFD2},
	unix.SYS_PIPE:    {unix.SYS_PIPE2}, unix.SYS_DUP2: {unix.SYS_DUP3},
	unix.SYS_ALARM: {unix.SYS_SETITIMER}, unix.SYS_TIME: {unix.SYS_CLOCK_GETTIME},
}

// The lists are derived on amd64; this test makes them valid for arm64.
func TestReplacementsOfAMD64CallsAreAllowed(t *testing.T) {
	here := slices.Clone(allowedHere)
	for nr := range checkedHere {
		here = append(here, nr)
	}
	for _, nr := range here {
		others, known := instead[nr]
		if !known {
			t.Errorf("the table instead lacks system call %d", nr)
		}
		for _, other := range others {
			if _, ok := checked[other]; !ok && !slices.Contains(allowed, other) {
				t.Errorf("system call %d, which replaces %d, is not allowed on every architecture", other, nr)
			}
		}
	}
}
