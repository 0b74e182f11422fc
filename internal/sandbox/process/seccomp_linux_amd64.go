package process

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_X86_64
	foreignBit = 0x40000000 // numbers of the x32 ABI
)

// The calls that exist only on this architecture; see allowed.
var (
	allowedHere = map[int]string{
		unix.SYS_OPEN:       "open: the loader and readers of files, before glibc 2.26; mimalloc",
		unix.SYS_MKDIR:      "mkdir: os.mkdir",
		unix.SYS_CHMOD:      "chmod: os.chmod",
		unix.SYS_STAT:       "__xstat64: os.stat, before glibc 2.33",
		unix.SYS_LSTAT:      "__lxstat64: os.lstat, before glibc 2.33",
		unix.SYS_NEWFSTATAT: "__fxstatat64 __xstat64: os.stat",
		unix.SYS_ACCESS:     "access syscall: os.access, mimalloc; the loader",
		unix.SYS_READLINK:   "readlink realpath: os.readlink, os.path.realpath",
		unix.SYS_RENAME:     "rename: os.rename",
		unix.SYS_RMDIR:      "rmdir: os.rmdir",
		unix.SYS_LINK:       "sem_open: multiprocessing.Lock",
		unix.SYS_UNLINK:     "unlink: os.unlink",
		unix.SYS_SYMLINK:    "symlink: os.symlink",
		unix.SYS_CHOWN:      "chown: os.chown",
		unix.SYS_LCHOWN:     "lchown: os.chown(follow_symlinks=False)",
		unix.SYS_UTIMES:     "utimes: sqlite3",
		unix.SYS_GETDENTS:   "readdir64: os.scandir, before glibc 2.28",
		unix.SYS_VFORK:      "vfork: subprocess",
		unix.SYS_GETPGRP:    "getpgrp: os.getpgrp",
		unix.SYS_ARCH_PRCTL: "__libc_start_main: every start of a program",
		unix.SYS_GETRLIMIT:  "getrlimit64 sysconf: resource, os.sysconf, before glibc 2.28",
		unix.SYS_SETRLIMIT:  "setrlimit64: resource, before glibc 2.28",
		unix.SYS_POLL:       "poll: select.poll",
		unix.SYS_SELECT:     "select: select.select, before glibc 2.34",
		unix.SYS_PIPE:       "pipe: os.pipe",
		unix.SYS_DUP2:       "dup2: os.dup2, subprocess",
		unix.SYS_PAUSE:      "pause: signal.pause",
		unix.SYS_ALARM:      "alarm: signal.alarm",
		unix.SYS_TIME:       "time: where it is not in the vDSO",
	}
	refusedHere = []int{
		unix.SYS_MKNOD, unix.SYS_INOTIFY_INIT, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_MODIFY_LDT,
		unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	}
	fallsBackHere = []int{unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT}
	checkedHere   = map[int]rule{
		unix.SYS_OPEN:  noSetID(2),
		unix.SYS_MKDIR: noSetID(1),
		unix.SYS_CHMOD: noSetID(1),
	}
)
