package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// ConfinedFilter returns the seccomp program of a process of this program that computes an
// answer from its standard input and needs nothing else of the system; see package confine.
// It names the calling process, since a thread of it may signal no other.
func ConfinedFilter() []byte { return filter(confinedRules()) }

// confinedRules allow what the Go runtime needs for memory, threads, signals and time, and to
// read and write open descriptors. No call that takes a name, an address or another process
// is allowed. Known ones are refused with EPERM, others are absent.
func confinedRules() map[int]rule {
	rules := map[int]rule{}
	for nr, r := range workerRules() {
		if r.otherwise != absent {
			rules[nr] = rule{otherwise: refuse}
		}
	}
	for _, nr := range pollerCalls {
		rules[nr] = rule{otherwise: refuse}
	}
	for _, nr := range confinedCalls {
		rules[nr] = rule{otherwise: allow}
	}
	// A thread: with any namespace flag, or without these, it would be a process.
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	rules[unix.SYS_CLONE] = rule{when: []condition{{arg: 0, mask: thread | namespaceFlags, value: thread, then: allow}}, otherwise: refuse}
	rules[unix.SYS_TGKILL] = oneOf(0, refuse, uint32(os.Getpid()))
	rules[unix.SYS_PRCTL] = oneOf(0, refuse, unix.PR_SET_VMA) // the runtime names its memory
	rules[unix.SYS_MADVISE] = checked[unix.SYS_MADVISE]
	for _, nr := range []int{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		rules[nr] = rule{when: []condition{{arg: 2, mask: unix.PROT_EXEC, value: 0, then: allow}}, otherwise: refuse}
	}
	return rules
}

var confinedCalls = []int{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_MUNMAP, unix.SYS_BRK,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, // of a thread in a build with cgo
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM,
}
