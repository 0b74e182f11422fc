package process

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	foreignBit = 0x40000000 // no such numbers: the kernel checks 32-bit callers by architecture
)

// The calls that are named differently on this architecture.
var (
	allowedHere = map[int]string{
		unix.SYS_FSTATAT:       "__fxstatat64 __xstat64: os.stat",
		unix.SYS_GETRLIMIT:     "getrlimit64 sysconf: resource, os.sysconf, before glibc 2.28",
		unix.SYS_SETRLIMIT:     "setrlimit64: resource, before glibc 2.28",
		unix.SYS_RT_SIGSUSPEND: "pause: signal.pause, before glibc 2.26",
	}
	refusedHere   = []int{unix.SYS_KEXEC_FILE_LOAD}
	fallsBackHere = []int{}
	checkedHere   = map[int]rule{}
)
