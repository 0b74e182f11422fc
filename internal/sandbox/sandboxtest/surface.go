package sandboxtest

import "runtime"

const (
	noSurface        = "Code cannot reach the kernel's implementation of this system call."
	noHostCapability = "it needs a capability over the host, which no configuration grants"
)

// surface returns attacks on the kernel and with its system calls on processes.
func surface() []Case {
	cases := []Case{
		{Name: "ptrace", Promise: "Code cannot trace a process.", Layers: layers("seccomp"),
			Steps: single(other + `
kernel("ptrace", 0x4206, pid, 0, 0); result = "seized"`)},
		{Name: "PTRACE_TRACEME", Promise: "Code cannot trace a process.", Layers: layers("seccomp"),
			Steps: single(`result = child(lambda: (kernel("ptrace", 0, 0, 0, 0), "traced")[1])`)},
		{Name: "reading memory of another process", Promise: "A process cannot access the memory of another.", Layers: layers("seccomp"), Steps: single(other + `
result = kernel("process_vm_readv", pid, iov(here), 1, iov(there), 1, 0)`)},
		{Name: "writing memory of another process", Promise: "A process cannot access the memory of another.", Layers: layers("seccomp"), Steps: single(other + `
result = kernel("process_vm_writev", pid, iov(here), 1, iov(there), 1, 0)`)},
		{Name: "comparing kernel objects", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
fd = os.dup(0)
try: kernel("kcmp", os.getpid(), os.getpid(), 0, 0, fd); result = "compared"
except OSError as e:
    if e.errno == errno.ENOSYS: impossible("this kernel has no kcmp")
    raise`)},
		{Name: "taking a descriptor of another process", Promise: "A process cannot take descriptors of another.",
			Layers: layers("seccomp"),
			Steps: single(`
result = kernel("pidfd_getfd", pidfd(os.getpid()), 0, 0) >= 0`)},
		{Name: "madvise for another process", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("process_madvise", pidfd(os.getpid()), None, 0, 20, 0)`)},
		{Name: "bpf", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
attr = ctypes.create_string_buffer(struct.pack("IIII", 1, 4, 4, 1) + bytes(112))
result = reaches("bpf", 0, attr, 128) or impossible("this host has no bpf for users")`)},
		{Name: "userfaultfd", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
try: result = kernel("userfaultfd", 1)
except OSError as e:
    if e.errno == errno.ENOSYS: impossible("this kernel has no userfaultfd")
    raise`)},
		{Name: "perf", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
attr = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 120, 1, 0, 0, 0, 1 | 1 << 5 | 1 << 6) + bytes(72))
result = reaches("perf_event_open", attr, 0, -1, -1, 0) or impossible("this host has no perf for users")`)},
		{Name: "kernel keyrings", Promise: "Code cannot read or write kernel keyrings.", Layers: layers("seccomp"),
			Steps: single(`
result = kernel("add_key", b"user", b"sandpiper-test", b"x", 1, -1)`)},
		{Name: "user keyring", Promise: "Code cannot read or write kernel keyrings.", Layers: layers("seccomp"),
			Steps: single(`result = kernel("keyctl", 0, -4, 1)`)},
		{Name: "request_key", Promise: "Code cannot make the kernel start a helper.", Layers: layers("seccomp"),
			Steps: single(`result = reaches("request_key", b"user", b"nothing", None, 0)`)},
		{Name: "io_uring", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("io_uring_register", -1, 0, None, 0) or impossible("this kernel has no io_uring")`)},
		{Name: "aio", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`context = ctypes.c_ulong(); kernel("io_setup", 1, ctypes.byref(context)); result = "set up"`)},
		{Name: "execution of a memfd", Promise: "Code can execute only programs in the private root.", Layers: layers("seccomp"),
			Steps: single(`
code = (b"\x40\x05\x80\xd2\xa8\x0b\x80\xd2\x01\x00\x00\xd4" if _arm else b"\xbf\x2a\x00\x00\x00\xb8\x3c\x00\x00\x00\x0f\x05")
at = 0x400000
elf = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 183 if _arm else 62, 1, at + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
elf += struct.pack("<IIQQQQQQ", 1, 5, 0, at, at, 120 + len(code), 120 + len(code), 4096) + code
fd = kernel("memfd_create", b"program", 0)
os.write(fd, elf)
pid = os.fork()
if pid == 0:
    arguments = (ctypes.c_char_p * 2)(b"program", None)
    try: kernel("execveat", fd, b"", arguments, arguments, 0x1000)
    finally: os._exit(1)
result = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42`)},
		{Name: "execveat", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("execveat", -100, b"/nowhere", None, None, 0)`)},
		{Name: "memfd_secret", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
try: result = kernel("memfd_secret", 0)
except OSError as e:
    if e.errno == errno.ENOSYS: impossible("this kernel has no memfd_secret")
    raise`)},
		{Name: "kernel modules", Promise: noSurface, NotShown: noHostCapability,
			Steps: single(`result = reaches("init_module", b"", 0, b"") or reaches("finit_module", 0, b"", 0) or ` +
				`reaches("delete_module", b"nothing", 0)`)},
		{Name: "kexec", Promise: noSurface, NotShown: noHostCapability,
			Steps: single(`result = reaches("kexec_load", 0, 0, None, 0) or reaches("reboot", 0, 0, 0, None)`)},
		{Name: "swap and process accounting", Promise: noSurface, NotShown: noHostCapability,
			Steps: single(`result = reaches("swapon", b"/nowhere", 0) or reaches("swapoff", b"/nowhere") or reaches("acct", b"/nowhere") ` +
				`or reaches("vhangup")`)},
		{Name: "quotas", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("quotactl", 0x800004 << 8, b"/nowhere", 0, None) or impossible("this kernel has no quotas")`)},
		{Name: "setting the clock", Promise: "Code cannot set the clock.", NotShown: noHostCapability,
			Steps: single(`
now = struct.pack("qq", int(time.time()), 0)
result = reaches("clock_settime", 0, now) or reaches("settimeofday", now, None)`)},
		{Name: "adjtimex", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("adjtimex", ctypes.create_string_buffer(256)) and reaches("clock_adjtime", 0, ` +
				`ctypes.create_string_buffer(256))`)},
		{Name: "kernel log", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("syslog", 10, None, 0) or impossible("this host hides the kernel's log")`)},
		{Name: "personality", Promise: "Code cannot change its execution domain.", Layers: layers("seccomp"),
			Steps: single(`kernel("personality", 0x0040000); result = "addresses are no longer random"`)},
		{Name: "TIOCSTI", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
result = [r for request in (0x5412, 0x541C, 1 << 32 | 0x5412) if (r := reaches("ioctl", 0, request, b"x"))]`)},
		{Name: "fanotify", Promise: "Code cannot watch files.", Layers: layers("seccomp"),
			Steps: single(`result = reaches("fanotify_init", 0x200, 0) or impossible("this kernel has no fanotify for users")`)},
		{Name: "inotify", Promise: "Code cannot watch files.", Layers: layers("seccomp"),
			Steps: single(`
fd = kernel("inotify_init1", 0); result = kernel("inotify_add_watch", fd, b"/python/lib/python3.14", 0xFFF)`)},
		{Name: "dnotify", Promise: "Code cannot watch files.", Layers: layers("seccomp"),
			Steps: single(`
fd = os.open("/tmp", os.O_RDONLY); kernel("fcntl", fd, 1026, 1); result = "watching"`)},
		{Name: "a lease", Promise: "Code cannot lease a file.", Layers: layers("seccomp"),
			Steps: single(`fd = tmp(); kernel("fcntl", fd, 1024, 1); result = "leased"`)},
		{Name: "a lease with high argument bits", Promise: "The filter compares arguments as the kernel reads them.",
			Layers: layers("seccomp"),
			Steps:  single(`fd = tmp(); kernel("fcntl", fd, 1 << 32 | 1024, 1); result = "leased"`)},
		{Name: "a larger pipe", Promise: "Code cannot resize a pipe.", Layers: layers("seccomp"),
			Steps: single(`r, w = os.pipe(); result = kernel("fcntl", w, 1031, 1 << 18)`)},
		{Name: "F_SETOWN and F_SETSIG", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`r, w = os.pipe(); kernel("fcntl", r, 8, os.getpid()); kernel("fcntl", r, 10, 10); result = "set"`)},
		{Name: "a lock on a shared file", Promise: "Code cannot lock a shared file.", Layers: layers("seccomp"),
			Steps: single(`
import fcntl
fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB); result = "locked"`)},
		{Name: "splice, tee and vmsplice", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
r, w = os.pipe()
result = reaches("vmsplice", w, None, 0, 0) and reaches("splice", -1, None, -1, None, 1, 0) and reaches("tee", -1, -1, 1, 0)`)},
		{Name: "sync of the host's disks", Promise: "Code cannot sync the host's disks.", Layers: layers("seccomp"),
			Steps: single(`result = reaches("syncfs", -1)`)},
		{Name: "locked memory", Promise: "Code cannot lock memory.", Layers: layers("seccomp rlimits"),
			Steps: single(`page = ctypes.create_string_buffer(8192); kernel("mlock", page, 4096); result = "locked"`)},
		{Name: "page cache probe by mincore", Promise: "Code cannot observe which files its siblings read.", Layers: layers("seccomp"), Steps: single(sharedFile + `
vector = ctypes.create_string_buffer(64)
kernel("mincore", at, 4096, vector); result = "seen"`)},
		{Name: "page cache probe by cachestat", Promise: "Code cannot observe which files its siblings read.", Layers: layers("seccomp"), Steps: single(sharedFile + `
try: result = reaches("cachestat", fd, struct.pack("QQ", 0, 0), ctypes.create_string_buffer(40), 0) or impossible("this kernel has no cachestat for users")
except OSError: pass`)},
		{Name: "page cache probe by preadv2", Promise: "Code cannot observe which files its siblings read.", Layers: layers("seccomp"), Steps: single(sharedFile + `
buffer = ctypes.create_string_buffer(16)
iov = struct.pack("QQ", ctypes.addressof(buffer), 16)
try: got = kernel("preadv2", fd, iov, 1, 0, 0, 8)
except OSError as e:
    if e.errno == errno.EOPNOTSUPP: impossible("this file system has no reading without waiting")
    got = e.errno == errno.EAGAIN
result = bool(got)`)},
		{Name: "page probe by KSM", Promise: "Code cannot observe the memory contents of its siblings.", Layers: layers("seccomp"),
			Steps: single(`
import mmap
m = mmap.mmap(-1, 1 << 16); at = ctypes.addressof(ctypes.c_char.from_buffer(m))
try: kernel("madvise", at, 1 << 16, 12); result = "merging"
except OSError as e:
    if e.errno == errno.EINVAL: impossible("this kernel merges no pages")
    raise`)},
		{Name: "scheduling class", Promise: "Code cannot raise its priority.", Layers: layers("seccomp"),
			Steps: single(`kernel("sched_setscheduler", 0, 3, struct.pack("i", 0)); result = kernel("ioprio_set", 1, 0, 2 << 13 | 4) == 0`)},
		{Name: "NUMA memory policy", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("set_mempolicy", 0, None, 0) and reaches("mbind", 0, 0, 0, None, 0, 0) or impossible("this ` +
				`kernel has no memory policies")`)},
		{Name: "moving pages of other processes", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("move_pages", 0, 0, None, None, None, 0) or impossible("this kernel moves no pages")`)},
		{Name: "System V shared memory", Promise: "Sandboxes share no System V objects.", Layers: layers("seccomp"),
			Steps: single(`result = kernel("shmget", 0, 4096, 0o1600) >= 0`)},
		{Name: "System V semaphores and queues", Promise: "Sandboxes share no System V objects.", Layers: layers("seccomp"),
			Steps: single(`result = kernel("semget", 0, 1, 0o1600) >= 0 and kernel("msgget", 0, 0o1600) >= 0`)},
		{Name: "POSIX message queues", Promise: "Sandboxes share no message queues.", Layers: layers("seccomp rlimits landlock"),
			Steps: single(`result = kernel("mq_open", b"mallory", 0o100 | 2, 0o600, None) >= 0; kernel("mq_unlink", b"mallory")`)},
		{Name: "clone3", Promise: "Code cannot create a namespace.", Layers: layers("seccomp user"),
			Steps: single(`
arguments = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
pid = kernel("clone3", arguments, 88)
if pid == 0: os._exit(0)
result = pid`)},
		{Name: "clone with a user namespace", Promise: "Code cannot create a namespace.", Layers: layers("seccomp user"),
			Steps: single(`
pid = kernel("clone", 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
result = pid`)},
		{Name: "clone with every other namespace", Promise: "Code cannot create a namespace.", Layers: layers("seccomp capabilities"),
			Steps: single(`
made = []
for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000):
    try: pid = kernel("clone", flag | 17, 0, 0, 0, 0)
    except OSError: continue
    if pid == 0: os._exit(0)
    made.append(hex(flag))
result = made`)},
		{Name: "unshare", Promise: "Code cannot create a namespace.", Layers: layers("seccomp user"),
			Steps: single(`result = child(lambda: (kernel("unshare", 0x10000000), "unshared")[1])`)},
		{Name: "unshare of the network and time", Promise: "Code cannot create a namespace.", Layers: layers("seccomp capabilities"),
			Steps: single(`result = [got for f in (0x40000000, 0x80, 0x20000, 0x04000000) if (got := child(lambda: (kernel("unshare", ` +
				`f), hex(f))[1]))]`)},
		{Name: "setns", Promise: "Code cannot enter a namespace.", Layers: layers("seccomp"),
			Steps: single(`result = reaches("setns", pidfd(os.getpid()), 0x10000000)`)},
		{Name: "process control by prctl", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`
asked = {"dumpable": (4, 1), "subreaper": (36, 1), "tracer": (0x59616D61, -1), "timing": (13,), "speculation": (52, 0), "memory map": (35, 6, 0), "merging": (68,)}
result = [name for name, a in asked.items() if reaches("prctl", *a, 0, 0)]`)},
		{Name: "seccomp filter by code", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("seccomp", 2, 0, struct.pack("I", 0x7FFF0000))`)},
		{Name: "limits of another process", Promise: "Code cannot read or change the limits of another process.", Layers: layers("seccomp"),
			Steps: single(`
r, w = os.pipe(); pid = os.fork()
if pid == 0: os.read(r, 1); os._exit(0)
old = ctypes.create_string_buffer(16)
try: kernel("prlimit64", pid, 7, None, old); result = "read"
finally: os.write(w, b"x")`)},
		{Name: "unknown system calls", Promise: "System calls that the filter does not know are refused.", Layers: layers("seccomp"),
			Steps: single(`
answered = []
for number in (*range(424, 435), 440, 442, *range(447, 475)):
    if number in (425, 426, 427, 435, 436, 437, 439, 441, 424, 434, 452): continue
    ctypes.set_errno(0)
    if _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6) != -1 or ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        answered.append((number, ctypes.get_errno()))
result = answered`)},
	}
	if runtime.GOARCH == "amd64" {
		cases = append(cases, foreignABI()...)
	}
	return cases
}

// other starts process pid, which has executed a program and can therefore be inspected if any
// process can. The address there, the same in both processes, contains an int.
const other = `
import subprocess
process = subprocess.Popen(["/python/bin/python3.14", "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
pid = process.pid
time.sleep(0.2)
here, there = ctypes.create_string_buffer(8), ctypes.c_int.in_dll(ctypes.pythonapi, "Py_OptimizeFlag")
iov = lambda o: struct.pack("QQ", ctypes.addressof(o), 4)
`

// sharedFile opens and maps a library file that all sandboxes share.
const sharedFile = `
fd = os.open(os.__file__, os.O_RDONLY)
_libc.mmap.restype = ctypes.c_void_p
at = _libc.mmap(None, 4096, 1, 1, fd, 0)
`

// foreignABI returns attacks by the other ABIs of an amd64 kernel.
func foreignABI() []Case {
	const machine = `
import mmap
def run(code):
    m = mmap.mmap(-1, 4096, prot=7); m.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
`
	const int80 = `b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3"` // push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
	const x32 = `b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"`           // mov eax, 0x40000027 (getpid); syscall; ret
	survives := func(code string) []Step {
		return single(machine + `
pid = os.fork()
if pid == 0:
    answer = run(` + code + `)
    os._exit(0 if answer == os.getpid() else 9)
status = os.waitpid(pid, 0)[1]
if status and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS): impossible(f"this kernel does not know the ABI: {status:#x}")
result = not status`)
	}
	return []Case{
		{Name: "system calls by int 0x80", Promise: "System calls by a foreign ABI do not succeed.", Layers: layers("seccomp"),
			Steps: survives(int80)},
		{Name: "system calls by x32", Promise: "System calls by a foreign ABI do not succeed.", Layers: layers("seccomp"),
			Steps: survives(x32)},
		{Name: "kill on int 0x80", Promise: "A system call by a foreign ABI kills the process.", NotShown: "the previous case shows it",
			Ends: []string{"crashed"}, Must: true,
			Steps: single(machine + `run(` + int80 + `); result = "alive"`)},
		{Name: "kill on x32", Promise: "A system call by a foreign ABI kills the process.", NotShown: "the previous case shows it",
			Ends: []string{"crashed"}, Must: true,
			Steps: single(machine + `run(` + x32 + `); result = "alive"`)},
		{Name: "a local descriptor table", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("modify_ldt", 0, None, 0) or impossible("this kernel has no modify_ldt")`)},
		{Name: "sysfs system call", Promise: noSurface, Layers: layers("seccomp"),
			Steps: single(`result = reaches("sysfs", 3) or impossible("this kernel has no sysfs call")`)},
	}
}

// identity returns attacks that change credentials or gain capabilities.
func identity() []Case {
	return []Case{
		{Name: "becoming root", Promise: "Code cannot change its uid.", Layers: layers("seccomp capabilities user"),
			Steps: single(`result = child(lambda: (kernel("setresuid", 0, 0, 0), os.getuid() == 0 and "root")[1])`)},
		{Name: "uid and groups", Promise: "Code runs as nobody.", Layers: layers("user"),
			Steps: single(`result = [i for i in (os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()) if i != 65534]`)},
		{Name: "capabilities", Promise: "Code holds no capability.", Layers: layers("capabilities"),
			Steps: single(`
sets = ctypes.create_string_buffer(24)
kernel("capget", struct.pack("Ii", 0x20080522, 0), sets)
result = any(struct.unpack("6I", sets.raw))`)},
		{Name: "capabilities by execve", Promise: "Code holds no capability.", NotShown: "no program in the root has capabilities",
			Steps: single(`
import subprocess
code = "import ctypes,struct;b=ctypes.create_string_buffer(24);ctypes.CDLL(None).capget(struct.pack('Ii',0x20080522,0),b);print(any(struct.unpack('6I',b.raw)))"
shown = subprocess.run([sys.executable or "/python/bin/python3.14", "-I", "-S", "-c", code], capture_output=True, text=True).stdout
result = shown != "False\n" and shown`)},
		{Name: "new privileges", Promise: "Executing a program grants no privileges.", Layers: layers("no_new_privs seccomp landlock"),
			Steps: single(`result = kernel("prctl", 39, 0, 0, 0, 0) == 0`)},
		{Name: "setting the host name", Promise: "Code cannot change the host name.", Layers: layers("seccomp capabilities user"),
			Steps: single(`kernel("sethostname", b"mallory", 7); result = os.uname().nodename`)},
		{Name: "bounding set", Promise: "Code cannot gain a capability.", Layers: layers("capabilities"),
			Steps: single(`result = [c for c in range(41) if _libc.prctl(23, c, 0, 0, 0) == 1]`)},
	}
}
