package process

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	foreignBit = 0x40000000 // no such numbers: the kernel checks 32-bit callers by architecture
)

// The calls that are named differently on this architecture.
var (
	allowedHere   = []int{unix.SYS_FSTATAT, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT}
	refusedHere   = []int{unix.SYS_KEXEC_FILE_LOAD}
	fallsBackHere = []int{}
	checkedHere   = map[int]rule{}
)
