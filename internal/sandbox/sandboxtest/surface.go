package sandboxtest

import "runtime"

const (
	noSurface = "The kernel's own code for this call is out of reach."
	noPower   = "it takes a capability over the host, which no switch here gives"
)

// surface are attacks on the kernel itself and on its means against processes.
func surface() []Case {
	cases := []Case{
		{Name: "ptrace", Promise: "No process is traced.", Layers: by("seccomp"),
			Steps: alone(other + `
kernel("ptrace", 0x4206, pid, 0, 0); result = "seized"`)},
		{Name: "being traced", Promise: "No process is traced.", Layers: by("seccomp"),
			Steps: alone(`result = child(lambda: (kernel("ptrace", 0, 0, 0, 0), "traced")[1])`)},
		{Name: "reading another's memory", Promise: "No process reads or writes another's memory.", Layers: by("seccomp"), Steps: alone(other + `
result = kernel("process_vm_readv", pid, iov(here), 1, iov(there), 1, 0)`)},
		{Name: "writing another's memory", Promise: "No process reads or writes another's memory.", Layers: by("seccomp"), Steps: alone(other + `
result = kernel("process_vm_writev", pid, iov(here), 1, iov(there), 1, 0)`)},
		{Name: "comparing kernel objects", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
fd = os.dup(0)
try: kernel("kcmp", os.getpid(), os.getpid(), 0, 0, fd); result = "compared"
except OSError as e:
    if e.errno == errno.ENOSYS: impossible("this kernel has no kcmp")
    raise`)},
		{Name: "taking another's descriptor", Promise: "No process takes another's descriptors.", Layers: by("seccomp"),
			Steps: alone(`
result = kernel("pidfd_getfd", pidfd(os.getpid()), 0, 0) >= 0`)},
		{Name: "advising another's memory", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("process_madvise", pidfd(os.getpid()), None, 0, 20, 0)`)},
		{Name: "bpf", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
attr = ctypes.create_string_buffer(struct.pack("IIII", 1, 4, 4, 1) + bytes(112))
result = reaches("bpf", 0, attr, 128) or impossible("this host has no bpf for users")`)},
		{Name: "userfaultfd", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
try: result = kernel("userfaultfd", 1)
except OSError as e:
    if e.errno == errno.ENOSYS: impossible("this kernel has no userfaultfd")
    raise`)},
		{Name: "perf", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
attr = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 120, 1, 0, 0, 0, 1 | 1 << 5 | 1 << 6) + bytes(72))
result = reaches("perf_event_open", attr, 0, -1, -1, 0) or impossible("this host has no perf for users")`)},
		{Name: "the kernel's keys", Promise: "Code keeps and finds nothing in the kernel's keyrings.", Layers: by("seccomp"),
			Steps: alone(`
result = kernel("add_key", b"user", b"sandpiper-test", b"x", 1, -1)`)},
		{Name: "the user's keyring", Promise: "Code keeps and finds nothing in the kernel's keyrings.", Layers: by("seccomp"),
			Steps: alone(`result = kernel("keyctl", 0, -4, 1)`)},
		{Name: "asking for a key", Promise: "The kernel starts no helper for code.", Layers: by("seccomp"),
			Steps: alone(`result = reaches("request_key", b"user", b"nothing", None, 0)`)},
		{Name: "io_uring", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("io_uring_register", -1, 0, None, 0) or impossible("this kernel has no io_uring")`)},
		{Name: "old asynchronous reading", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`context = ctypes.c_ulong(); kernel("io_setup", 1, ctypes.byref(context)); result = "set up"`)},
		{Name: "a program in memory", Promise: "No program is executed that is not in the private root.", Layers: by("seccomp"),
			Steps: alone(`
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
		{Name: "execveat", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("execveat", -100, b"/nowhere", None, None, 0)`)},
		{Name: "memory that the kernel cannot see", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
try: result = kernel("memfd_secret", 0)
except OSError as e:
    if e.errno == errno.ENOSYS: impossible("this kernel has no memfd_secret")
    raise`)},
		{Name: "modules", Promise: noSurface, Unshown: noPower,
			Steps: alone(`result = reaches("init_module", b"", 0, b"") or reaches("finit_module", 0, b"", 0) or reaches("delete_module", b"nothing", 0)`)},
		{Name: "another kernel", Promise: noSurface, Unshown: noPower,
			Steps: alone(`result = reaches("kexec_load", 0, 0, None, 0) or reaches("reboot", 0, 0, 0, None)`)},
		{Name: "swapping and accounting", Promise: noSurface, Unshown: noPower,
			Steps: alone(`result = reaches("swapon", b"/nowhere", 0) or reaches("swapoff", b"/nowhere") or reaches("acct", b"/nowhere") or reaches("vhangup")`)},
		{Name: "quotas", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("quotactl", 0x800004 << 8, b"/nowhere", 0, None) or impossible("this kernel has no quotas")`)},
		{Name: "the clock", Promise: "Nobody's clock is changed.", Unshown: noPower,
			Steps: alone(`
now = struct.pack("qq", int(time.time()), 0)
result = reaches("clock_settime", 0, now) or reaches("settimeofday", now, None)`)},
		{Name: "the clock's discipline", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("adjtimex", ctypes.create_string_buffer(256)) and reaches("clock_adjtime", 0, ctypes.create_string_buffer(256))`)},
		{Name: "the kernel's log", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("syslog", 10, None, 0) or impossible("this host hides the kernel's log")`)},
		{Name: "personality", Promise: "Code stays in the execution domain it was given.", Layers: by("seccomp"),
			Steps: alone(`kernel("personality", 0x0040000); result = "addresses are no longer random"`)},
		{Name: "typing into a terminal", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
result = [r for request in (0x5412, 0x541C, 1 << 32 | 0x5412) if (r := reaches("ioctl", 0, request, b"x"))]`)},
		{Name: "fanotify", Promise: "Nobody watches files.", Layers: by("seccomp"),
			Steps: alone(`result = reaches("fanotify_init", 0x200, 0) or impossible("this kernel has no fanotify for users")`)},
		{Name: "inotify", Promise: "Nobody watches files.", Layers: by("seccomp"),
			Steps: alone(`
fd = kernel("inotify_init1", 0); result = kernel("inotify_add_watch", fd, b"/python/lib/python3.14", 0xFFF)`)},
		{Name: "dnotify", Promise: "Nobody watches files.", Layers: by("seccomp"),
			Steps: alone(`
fd = os.open("/tmp", os.O_RDONLY); kernel("fcntl", fd, 1026, 1); result = "watching"`)},
		{Name: "a lease", Promise: "Code cannot make others wait for a file.", Layers: by("seccomp"),
			Steps: alone(`fd = tmp(); kernel("fcntl", fd, 1024, 1); result = "leased"`)},
		{Name: "a lease by high bits", Promise: "Arguments are judged as the kernel reads them.", Layers: by("seccomp"),
			Steps: alone(`fd = tmp(); kernel("fcntl", fd, 1 << 32 | 1024, 1); result = "leased"`)},
		{Name: "a larger pipe", Promise: "A pipe has the size it has.", Layers: by("seccomp"),
			Steps: alone(`r, w = os.pipe(); result = kernel("fcntl", w, 1031, 1 << 18)`)},
		{Name: "signals by descriptors", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`r, w = os.pipe(); kernel("fcntl", r, 8, os.getpid()); kernel("fcntl", r, 10, 10); result = "set"`)},
		{Name: "a lock on a shared file", Promise: "Code cannot make its siblings wait for a file.", Layers: by("seccomp"),
			Steps: alone(`
import fcntl
fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB); result = "locked"`)},
		{Name: "splicing", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
r, w = os.pipe()
result = reaches("vmsplice", w, None, 0, 0) and reaches("splice", -1, None, -1, None, 1, 0) and reaches("tee", -1, -1, 1, 0)`)},
		{Name: "flushing the host's disks", Promise: "Code cannot make the host's disks busy for nothing.", Layers: by("seccomp"),
			Steps: alone(`result = reaches("syncfs", -1)`)},
		{Name: "locked memory", Promise: "No memory is locked.", Layers: by("seccomp rlimits"),
			Steps: alone(`page = ctypes.create_string_buffer(8192); kernel("mlock", page, 4096); result = "locked"`)},
		{Name: "who else reads a file, by mincore", Promise: "Code cannot see what its siblings read.", Layers: by("seccomp"), Steps: alone(sharedFile + `
vector = ctypes.create_string_buffer(64)
kernel("mincore", at, 4096, vector); result = "seen"`)},
		{Name: "who else reads a file, by cachestat", Promise: "Code cannot see what its siblings read.", Layers: by("seccomp"), Steps: alone(sharedFile + `
try: result = reaches("cachestat", fd, struct.pack("QQ", 0, 0), ctypes.create_string_buffer(40), 0) or impossible("this kernel has no cachestat for users")
except OSError: pass`)},
		{Name: "who else reads a file, by reading what is cached", Promise: "Code cannot see what its siblings read.", Layers: by("seccomp"), Steps: alone(sharedFile + `
buffer = ctypes.create_string_buffer(16)
iov = struct.pack("QQ", ctypes.addressof(buffer), 16)
try: got = kernel("preadv2", fd, iov, 1, 0, 0, 8)
except OSError as e:
    if e.errno == errno.EOPNOTSUPP: impossible("this file system has no reading without waiting")
    got = e.errno == errno.EAGAIN
result = bool(got)`)},
		{Name: "who else holds a page, by merging equal ones", Promise: "Code cannot see what its siblings remember.", Layers: by("seccomp"),
			Steps: alone(`
import mmap
m = mmap.mmap(-1, 1 << 16); at = ctypes.addressof(ctypes.c_char.from_buffer(m))
try: kernel("madvise", at, 1 << 16, 12); result = "merging"
except OSError as e:
    if e.errno == errno.EINVAL: impossible("this kernel merges no pages")
    raise`)},
		{Name: "scheduling", Promise: "Code cannot take more than its turn.", Layers: by("seccomp"),
			Steps: alone(`kernel("sched_setscheduler", 0, 3, struct.pack("i", 0)); result = kernel("ioprio_set", 1, 0, 2 << 13 | 4) == 0`)},
		{Name: "places of memory", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("set_mempolicy", 0, None, 0) and reaches("mbind", 0, 0, 0, None, 0, 0) or impossible("this kernel has no memory policies")`)},
		{Name: "moving pages of others", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("move_pages", 0, 0, None, None, None, 0) or impossible("this kernel moves no pages")`)},
		{Name: "System V shared memory", Promise: "Sandboxes share nothing through System V objects.", Layers: by("seccomp"),
			Steps: alone(`result = kernel("shmget", 0, 4096, 0o1600) >= 0`)},
		{Name: "System V semaphores and queues", Promise: "Sandboxes share nothing through System V objects.", Layers: by("seccomp"),
			Steps: alone(`result = kernel("semget", 0, 1, 0o1600) >= 0 and kernel("msgget", 0, 0o1600) >= 0`)},
		{Name: "POSIX message queues", Promise: "Sandboxes share nothing through message queues.", Layers: by("seccomp rlimits landlock"),
			Steps: alone(`result = kernel("mq_open", b"mallory", 0o100 | 2, 0o600, None) >= 0; kernel("mq_unlink", b"mallory")`)},
		{Name: "clone3", Promise: "No namespace is made.", Layers: by("seccomp user"),
			Steps: alone(`
arguments = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
pid = kernel("clone3", arguments, 88)
if pid == 0: os._exit(0)
result = pid`)},
		{Name: "clone with a user namespace", Promise: "No namespace is made.", Layers: by("seccomp user"),
			Steps: alone(`
pid = kernel("clone", 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
result = pid`)},
		{Name: "clone with every other namespace", Promise: "No namespace is made.", Layers: by("seccomp capabilities"),
			Steps: alone(`
made = []
for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000):
    try: pid = kernel("clone", flag | 17, 0, 0, 0, 0)
    except OSError: continue
    if pid == 0: os._exit(0)
    made.append(hex(flag))
result = made`)},
		{Name: "unshare", Promise: "No namespace is made.", Layers: by("seccomp user"),
			Steps: alone(`result = child(lambda: (kernel("unshare", 0x10000000), "unshared")[1])`)},
		{Name: "unshare of the network and time", Promise: "No namespace is made.", Layers: by("seccomp capabilities"),
			Steps: alone(`result = [got for f in (0x40000000, 0x80, 0x20000, 0x04000000) if (got := child(lambda: (kernel("unshare", f), hex(f))[1]))]`)},
		{Name: "setns", Promise: "No namespace is entered.", Layers: by("seccomp"),
			Steps: alone(`result = reaches("setns", pidfd(os.getpid()), 0x10000000)`)},
		{Name: "control of a process by prctl", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`
asked = {"dumpable": (4, 1), "subreaper": (36, 1), "tracer": (0x59616D61, -1), "timing": (13,), "speculation": (52, 0), "memory map": (35, 6, 0), "merging": (68,)}
result = [name for name, a in asked.items() if reaches("prctl", *a, 0, 0)]`)},
		{Name: "a filter of one's own", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("seccomp", 2, 0, struct.pack("I", 0x7FFF0000))`)},
		{Name: "another's limits", Promise: "Nobody changes another's limits.", Layers: by("seccomp"),
			Steps: alone(`
r, w = os.pipe(); pid = os.fork()
if pid == 0: os.read(r, 1); os._exit(0)
old = ctypes.create_string_buffer(16)
try: kernel("prlimit64", pid, 7, None, old); result = "read"
finally: os.write(w, b"x")`)},
		{Name: "calls nobody lists", Promise: "A call that is new to us is not there.", Layers: by("seccomp"),
			Steps: alone(`
answered = []
for number in (*range(424, 435), 440, 442, *range(447, 475)):
    if number in (425, 426, 427, 435, 436, 437, 439, 441, 424, 434, 452): continue
    ctypes.set_errno(0)
    if _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6) != -1 or ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        answered.append((number, ctypes.get_errno()))
result = answered`)},
	}
	if runtime.GOARCH == "amd64" {
		cases = append(cases, foreign()...)
	}
	return cases
}

// other starts pid, a process that may be looked at if anything may: one that
// has executed a program. At there, the same in both, lies an int.
const other = `
import subprocess
process = subprocess.Popen(["/python/bin/python3.14", "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
pid = process.pid
time.sleep(0.2)
here, there = ctypes.create_string_buffer(8), ctypes.c_int.in_dll(ctypes.pythonapi, "Py_OptimizeFlag")
iov = lambda o: struct.pack("QQ", ctypes.addressof(o), 4)
`

// sharedFile opens a file of the library that all sandboxes share, and maps it.
const sharedFile = `
fd = os.open(os.__file__, os.O_RDONLY)
_libc.mmap.restype = ctypes.c_void_p
at = _libc.mmap(None, 4096, 1, 1, fd, 0)
`

// foreign are calls by the other ABIs of an amd64 kernel.
func foreign() []Case {
	const machine = `
import mmap
def run(code):
    m = mmap.mmap(-1, 4096, prot=7); m.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
`
	const int80 = `b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3"` // push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
	const x32 = `b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"`           // mov eax, 0x40000027 (getpid); syscall; ret
	survives := func(code string) []Step {
		return alone(machine + `
pid = os.fork()
if pid == 0:
    answer = run(` + code + `)
    os._exit(0 if answer == os.getpid() else 9)
status = os.waitpid(pid, 0)[1]
if status and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS): impossible(f"this kernel does not know the ABI: {status:#x}")
result = not status`)
	}
	return []Case{
		{Name: "calls by int 0x80", Promise: "A foreign ABI is not answered.", Layers: by("seccomp"), Steps: survives(int80)},
		{Name: "calls by x32", Promise: "A foreign ABI is not answered.", Layers: by("seccomp"), Steps: survives(x32)},
		{Name: "a call by int 0x80 kills", Promise: "A foreign ABI kills.", Unshown: "the case before shows it", Ends: []string{"crashed"}, Must: true,
			Steps: alone(machine + `run(` + int80 + `); result = "alive"`)},
		{Name: "a call by x32 kills", Promise: "A foreign ABI kills.", Unshown: "the case before shows it", Ends: []string{"crashed"}, Must: true,
			Steps: alone(machine + `run(` + x32 + `); result = "alive"`)},
		{Name: "a local descriptor table", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("modify_ldt", 0, None, 0) or impossible("this kernel has no modify_ldt")`)},
		{Name: "file systems by number", Promise: noSurface, Layers: by("seccomp"),
			Steps: alone(`result = reaches("sysfs", 3) or impossible("this kernel has no sysfs call")`)},
	}
}

// identity are attempts to become somebody or to hold power.
func identity() []Case {
	return []Case{
		{Name: "becoming root", Promise: "Code stays nobody.", Layers: by("seccomp capabilities user"),
			Steps: alone(`result = child(lambda: (kernel("setresuid", 0, 0, 0), os.getuid() == 0 and "root")[1])`)},
		{Name: "who code is", Promise: "Code is nobody in particular.", Layers: by("user"),
			Steps: alone(`result = [i for i in (os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()) if i != 65534]`)},
		{Name: "capabilities", Promise: "Code holds no capability.", Layers: by("capabilities"),
			Steps: alone(`
sets = ctypes.create_string_buffer(24)
kernel("capget", struct.pack("Ii", 0x20080522, 0), sets)
result = any(struct.unpack("6I", sets.raw))`)},
		{Name: "capabilities by executing", Promise: "Code holds no capability.", Unshown: "there is nothing to execute that would give one",
			Steps: alone(`
import subprocess
code = "import ctypes,struct;b=ctypes.create_string_buffer(24);ctypes.CDLL(None).capget(struct.pack('Ii',0x20080522,0),b);print(any(struct.unpack('6I',b.raw)))"
said_ = subprocess.run([sys.executable or "/python/bin/python3.14", "-I", "-S", "-c", code], capture_output=True, text=True).stdout
result = said_ != "False\n" and said_`)},
		{Name: "new privileges", Promise: "Executing a program gives no privileges.", Layers: by("no_new_privs seccomp landlock"),
			Steps: alone(`result = kernel("prctl", 39, 0, 0, 0, 0) == 0`)},
		{Name: "the host's name", Promise: "Nobody's name is changed.", Layers: by("seccomp capabilities user"),
			Steps: alone(`kernel("sethostname", b"mallory", 7); result = os.uname().nodename`)},
		{Name: "the bounding set", Promise: "Code could never hold a capability.", Layers: by("capabilities"),
			Steps: alone(`result = [c for c in range(41) if _libc.prctl(23, c, 0, 0, 0) == 1]`)},
	}
}
