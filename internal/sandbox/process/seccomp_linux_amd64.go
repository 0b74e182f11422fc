package process

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_X86_64
	foreignBit = 0x40000000 // numbers of the x32 ABI
)

// The calls that exist only on this architecture.
var (
	allowedHere = []int{
		unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_RENAME,
		unix.SYS_RMDIR, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_SYMLINK, unix.SYS_CHOWN, unix.SYS_LCHOWN,
		unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_GETDENTS,
		unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT,
		unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EVENTFD,
		unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_PAUSE, unix.SYS_ALARM, unix.SYS_TIME,
	}
	refusedHere = []int{
		unix.SYS_MKNOD, unix.SYS_INOTIFY_INIT, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_MODIFY_LDT,
		unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	}
	fallsBackHere = []int{unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT}
	checkedHere   = map[int]rule{
		unix.SYS_OPEN:  noSetID(2),
		unix.SYS_CREAT: noSetID(1),
		unix.SYS_MKDIR: noSetID(1),
		unix.SYS_CHMOD: noSetID(1),
	}
)
