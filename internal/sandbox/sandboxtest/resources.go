package sandboxtest

import (
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

const (
	memory = "Code has no more memory than its limit."
	inTime = "Code has no more time than its limit."

	kernelMemory = "The kernel holds no more memory for code than twice its limit."
)

// resources returns attacks on shared resources.
func resources() []Case {
	small := sandbox.Limits{MemoryBytes: 160 << 20}
	ended := []string{"raised:memory", "over_limit:memory"}
	cases := []Case{
		{Name: "one allocation", Promise: memory, Layers: layers("rlimits cgroups"), Limits: small, Ends: ended, Must: true,
			Steps: single(`kept = bytearray(300 << 20); result = len(kept)`)},
		{Name: "many allocations", Promise: memory, Layers: layers("rlimits cgroups"), Limits: small, Ends: ended, Must: true,
			Steps: single(`kept = [b"x" * (1 << 20) + str(i).encode() for i in range(300)]; result = len(kept)`)},
		{Name: "a mapping", Promise: memory, Layers: layers("rlimits cgroups"), Limits: small,
			Ends: append([]string{"completed", "raised"}, ended...), Must: true,
			Steps: single(`
import mmap
m = mmap.mmap(-1, 300 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(m), 4096): m[at] = 1
result = len(m)`)},
		{Name: "a shared mapping", Promise: memory, Layers: layers("cgroups"), Limits: small,
			Ends: append([]string{"completed", "raised", "crashed"}, ended...), Must: true,
			Steps: single(`
import mmap
m = mmap.mmap(-1, 300 << 20)
for at in range(0, len(m), 4096): m[at] = 1
result = len(m)`)},
		{Name: "memory mapped without pages", Promise: memory, Layers: layers("rlimits"), Limits: small, Ends: ended,
			Steps: single(`import mmap; result = [len(mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)) for ` +
				`_ in range(4)]`)},
		{Name: "memory above a soft limit that code raises", Promise: memory, Layers: layers("rlimits cgroups"), Limits: small, Ends: ended,
			Must: true,
			Steps: single(`
import resource
hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
kept = [os.urandom(1 << 20) for i in range(600)]; result = len(kept)`)},
		{Name: "memory that is made read-only", Promise: memory, Layers: layers("cgroups"), Limits: small, Ends: ended, Must: true,
			Steps: single(`
import ctypes, mmap
kept = []
for _ in range(10):
    m = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, len(m), 4096): m[at] = 1
    start = ctypes.addressof(ctypes.c_char.from_buffer(m))
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(len(m)), mmap.PROT_READ) == 0
    kept.append(m)
result = "320 MB that RLIMIT_DATA does not count"`)},
		{Name: "memory in processes and files", Promise: memory, Layers: layers("cgroups"), Limits: small, Ends: ended, Must: true,
			Steps: single(`
for folder in ("/tmp", "/dev/shm"):
    with open(folder + "/large", "wb", 0) as f:
        for _ in range(60): f.write(bytes(1 << 20))
kept = [os.urandom(1 << 20) for i in range(120)]
time.sleep(1); result = "240 MB"`)},
		{Name: "memory of many processes", Slow: true, Promise: memory, Layers: layers("cgroups"), Limits: small, Ends: ended, Steps: single(`
import array
r, w = os.pipe()
pids = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        kept = os.urandom(1 << 20) * 90
        os.write(w, b"x")
        time.sleep(4); os._exit(0)
    pids.append(pid)
os.close(w)
got = b"".join(iter(lambda: os.read(r, 10), b""))
fine = [os.waitpid(pid, 0)[1] == 0 for pid in pids]
result = all(fine) and len(got) == 3 and "270 MB held by three"`)},
		{Name: "memory in a memfd", Promise: memory, Layers: layers("seccomp cgroups"), Limits: small, Ends: ended, Steps: single(`
fd = kernel("memfd_create", b"memory", 0)
for _ in range(300): os.write(fd, bytes(1 << 20))
result = os.fstat(fd).st_size`)},
		{Name: "/tmp and /dev/shm", Promise: memory, NotShown: "the mount limits the size in every configuration", Limits: small,
			Ends: append([]string{"raised:disk"}, ended...), Must: true,
			Steps: single(`
written, full = 0, None
for folder in ("/tmp", "/dev/shm"):
    try:
        with open(folder + "/large", "wb", 0) as f:
            for _ in range(200): written += f.write(bytes(1 << 20))
    except OSError as e: full = e
result = written if written > 165 << 20 else 0
if not result and full: raise full`)},
		{Name: "many files in /tmp", Promise: "Scratch space has a limited number of files.",
			NotShown: "the mount limits the number in every configuration", Ends: []string{"raised:disk"}, Must: true,
			Steps: single(`
for i in range(25_000): os.close(os.open(f"/tmp/{i}", os.O_CREAT | os.O_WRONLY))
result = "25,000 files"`)},
		{Name: "memory in pipes", Promise: "The number of descriptors limits the kernel's buffers.", Layers: layers("rlimits"),
			Ends: []string{"raised:open_files"},
			Steps: single(`
kept, total = [], 0
while total < 24 << 20:
    r, w = os.pipe(); kept.append((r, w)); os.set_blocking(w, False)
    total += os.write(w, bytes(1 << 16))
result = total`)},
		{Name: "memory in socket pairs", Promise: "The number of descriptors limits the kernel's buffers.", Layers: layers("rlimits"),
			Ends: []string{"raised:open_files"},
			Steps: single(`
kept, total = [], 0
while len(kept) < 200:
    a, b = socket.socketpair(); kept.append((a, b)); a.setblocking(False); b.setblocking(False)
    for s in (a, b):
        try:
            while True: total += s.send(bytes(1 << 14))
        except BlockingIOError: pass
result = total`)},
		{Name: "memory in sockets of many processes", Slow: true, Promise: kernelMemory, Layers: layers("cgroups"), Limits: small, Ends: ended, Steps: single(holding(`
kept = []
def fill(kind):
    a, b = socket.socketpair(type=kind); kept.append((a, b)); total = 0
    for s in (a, b):
        s.setblocking(False)
        try:
            while True: total += s.send(bytes(1 << 14))
        except BlockingIOError: pass
    return total
def hold():
    total = sum(fill(socket.SOCK_SEQPACKET) for _ in range(20))
    try:
        while total < 40 << 20: total += fill(socket.SOCK_STREAM)
    except OSError: pass
    return total`, 10))},
		{Name: "pages of a truncated file in sockets", Promise: kernelMemory, Layers: layers("cgroups"), Limits: small, Ends: ended, Steps: single(holding(`
kept = []
def hold():
    total, fd = 0, tmp()
    while len(kept) < 100 and total < 330 << 20:
        a, b = socket.socketpair(); kept.append((a, b)); a.setblocking(False); b.setblocking(False)
        os.pwrite(fd, bytes(4 << 20), 0)
        for s in (a, b):
            try:
                for at in range(4095, 4 << 20, 8192): os.sendfile(s.fileno(), fd, at, 2); total += 8192
            except BlockingIOError: pass
        os.ftruncate(fd, 0)
    return total`, 1))},
		{Name: "shared memory without a mapping", Promise: memory, Layers: layers("cgroups"), Limits: small, Ends: ended, Steps: single(unmapped + `
result = fill(lambda: map_(None, 16 << 20, 3, 0x21, -1, 0), lambda at: ctypes.memset(at, 1, 16 << 20))`)},
		{Name: "shared memory of a device", Promise: memory, Layers: layers("root landlock cgroups"), Limits: small, Ends: ended, Steps: single(unmapped + `
fd = os.open("/dev/zero", os.O_RDWR)
result = fill(lambda: map_(None, 16 << 20, 3, 1, fd, 0), lambda at: ctypes.memset(at, 1, 16 << 20))`)},
		{Name: "memory of a process whose first thread has ended", Promise: memory, Layers: layers("cgroups"), Limits: small,
			Time: 15 * time.Second,
			Ends: append([]string{"timed_out"}, ended...), // a cgroup of version 1 may wait for the memory of such a process
			Steps: single(`
import threading
r, w = os.pipe()
def hold():
    kept = bytearray(110 << 20)
    for at in range(0, len(kept), 4096): kept[at] = 1
    os.write(w, b"x"); time.sleep(60)
for _ in range(3):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        kernel("exit", 0)
os.close(w)
import select
got = b""
while len(got) < 3 and select.select([r], [], [], 4)[0]: got += os.read(r, 1)
time.sleep(1); result = len(got) == 3 and "330 MB held by three"`)},
		{Name: "many empty mappings", Slow: true, Promise: kernelMemory, Layers: layers("cgroups"), Limits: small, Ends: ended, Steps: single(unmapped + holding(`
for n in range(64_000):
    if map_(None, 4096, n % 2, 0x22, -1, 0) is None: break
def hold(): return 64_000 * 216`, 26))},
		{Name: "descriptors that a process shares", Promise: kernelMemory, Layers: layers("seccomp"), Steps: single(`
pid = kernel("clone", 0x400 | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0: os._exit(0)
result = pid`)},
		{Name: "a large file", Promise: "The size of a file is limited.", Layers: layers("rlimits"),
			Limits: sandbox.Limits{FileBytes: 1 << 20}, Ends: []string{"raised:file_size"}, Must: true,
			Steps: single(`
with open("/workspace/large", "wb", 0) as f:
    for _ in range(3): f.write(bytes(1 << 20))
result = os.stat("/workspace/large").st_size`)},
		{Name: "a large sparse file", Promise: "The size of a file is limited.", Layers: layers("rlimits"),
			Limits: sandbox.Limits{FileBytes: 1 << 20}, Ends: []string{"raised:file_size"}, Must: true,
			Steps: single(`fd = os.open("/workspace/large", os.O_CREAT | os.O_RDWR); os.ftruncate(fd, 1 << 30); result = ` +
				`os.fstat(fd).st_size`)},
		{Name: "epoll watches", Promise: "Code cannot exhaust resources of the daemon's user.", Layers: layers("seccomp"),
			Steps: single(`
import select
watched = select.epoll(); r, w = os.pipe(); watched.register(r, select.EPOLLIN)
result = "watching"`)},
		{Name: "queued signals", Promise: "Code cannot exhaust resources of the daemon's user.", Layers: layers("rlimits"),
			Steps: single(`
number = signal.SIGRTMIN + 1
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
for _ in range(2000): os.kill(os.getpid(), number)
queued = 0
while signal.sigtimedwait([number], 0): queued += 1
result = queued if queued > 1000 else 0`)},
		{Name: "many open files", Promise: "A process has no more descriptors than its limit.", Layers: layers("rlimits"),
			Ends: []string{"raised:open_files"}, Must: true,
			Steps: single(`kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(600)]; result = len(kept)`)},
		{Name: "raising resource limits", Promise: "A limit cannot be raised.", Layers: layers("rlimits"),
			Steps: single(`
import resource
result = [n for n in ("AS", "DATA", "NOFILE", "FSIZE", "CPU", "NPROC", "MEMLOCK", "MSGQUEUE") if resource.getrlimit(getattr(resource, "RLIMIT_" + n))[1] in (-1, 2**63 - 1)]
for n in ("AS", "DATA", "NOFILE", "FSIZE", "CPU"):
    limit = getattr(resource, "RLIMIT_" + n)
    soft, hard = resource.getrlimit(limit)
    try: resource.setrlimit(limit, (soft, hard + 1)); result.append("raised " + n)
    except (OSError, ValueError, OverflowError): pass`)},
		{Name: "core dump to the host's handler", Promise: "A crash passes no memory to a program of the host.", Layers: layers("rlimits"),
			Steps: single(`import resource; limits = resource.getrlimit(resource.RLIMIT_CORE); result = limits != (1, 1) and str(limits)`)},
		{Name: "CPU time", Promise: "A process has no more CPU time than its limit.", Layers: layers("rlimits"),
			Limits: sandbox.Limits{CPU: time.Second}, Ends: []string{"over_limit:cpu_time"}, Must: true,
			Steps: single(`
while time.process_time() < 2: pass
result = time.process_time()`)},
		{Name: "endless output", Promise: "The size of output is limited while it is streamed.", NotShown: byHost, Output: 1 << 20,
			Ends: []string{"over_limit:output"}, Must: true,
			Steps: single(`
while True: print("x" * 1000)`)},
		{Name: "endless output that bypasses the runtime", Promise: "The size of output is limited while it is streamed.", NotShown: byHost,
			Output: 1 << 20, Ends: []string{"over_limit:output"}, Must: true,
			Steps: single(`
line = b"x" * 1000 + b"\n"
while True: os.write(1, line)`)},
		{Name: "endless output without lines", Promise: "The size of output is limited while it is streamed.", NotShown: byHost,
			Output: 1 << 20, Ends: []string{"over_limit:output"}, Must: true,
			Steps: single(`
while True: os.write(1, bytes(1 << 16))`)},
		{Name: "endless stderr", Promise: "Only the end of stderr is kept.", NotShown: byHost,
			Check: func(p *Result) string {
				if n := len(p.Last().Stderr); n > 256<<10 {
					return fmt.Sprintf("%d bytes of stderr were kept", n)
				}
				return ""
			},
			Steps: single(`
for _ in range(500): os.write(2, b"x" * 50_000); sys.stderr.write("y" * 50_000)`)},
		{Name: "a huge result", Promise: "The size of a result is limited.", NotShown: byHost, Limits: sandbox.Limits{ResultBytes: 1 << 20},
			Ends: []string{"raised:result_size"}, Must: true,
			Steps: single(`result = "x" * (2 << 20)`)},
		{Name: "an endless result", Promise: "The size of a result is limited.", NotShown: byHost,
			Limits: sandbox.Limits{ResultBytes: 1 << 20, MemoryBytes: 256 << 20},
			Ends:   append([]string{"raised:result_size", "raised:RecursionError", "timed_out", "completed"}, ended...), Must: true,
			Time: 10 * time.Second,
			Steps: single(`
class Endless(dict):
    def items(self):
        while True: yield "key", "value"
    def __iter__(self):
        while True: yield "key"
    def __bool__(self): return False
import json
result = {"note": [x] * 1000 for x in ["x" * 1000]} if False else {"note": ["x" * 1000] * 100_000}`)},
		{Name: "a result that contains itself", Promise: "Every result becomes JSON or an error.", NotShown: byHost,
			Ends: []string{"raised:ValueError", "raised:RecursionError"},
			Steps: single(`
loop = {"note": 1}; loop["loop"] = loop; result = loop`)},
		{Name: "a deep result", Promise: "Every result becomes JSON or an error.", NotShown: byHost,
			Ends: []string{"raised:RecursionError", "raised:ValueError", "raised:result_size"},
			Steps: single(`
deep = []
for _ in range(100_000): deep = [deep]
result = {"note": deep}`)},
		{Name: "a result with overridden methods", Promise: "Methods of a result affect only its own execution.", NotShown: byHost,
			Ends: []string{"raised:ValueError", "raised:SystemExit", "raised:ZeroDivisionError", "raised:TypeError", "crashed"},
			Steps: single(`
class Trap(dict):
    def __getattribute__(self, name): raise SystemExit(3)
    def __repr__(self): return ""
    __class__ = property(lambda self: 1 / 0)
result = Trap(note=1)`)},
		{Name: "recursion", Promise: "Unbounded recursion raises an exception.", NotShown: "the interpreter limits it",
			Ends: []string{"raised:RecursionError"}, Must: true,
			Steps: single(`
def f(): f()
f()`)},
		{Name: "recursion above the interpreter's limit", Slow: true, Promise: "A stack overflow affects only its own worker.",
			NotShown: byHost,
			Ends:     append([]string{"crashed", "raised:RecursionError"}, ended...), Must: true,
			Steps: single(`
sys.setrecursionlimit(10**9)
def f(x): return [f(y) for y in (x,)]
f(1)`)},
		{Name: "deeply nested code", Promise: "Code that cannot be compiled affects only its own execution.", NotShown: byHost,
			Ends: append([]string{"raised:SyntaxError", "raised:RecursionError"}, ended...), Must: true,
			Steps: single(`x = ` + nested(5000))},
		{Name: "code of two megabytes", Promise: "Code that cannot be compiled affects only its own execution.", NotShown: byHost,
			Ends: append([]string{"raised:SyntaxError", "raised:RecursionError"}, ended...), Must: true,
			Steps: single(`eval("(" * 10**6); eval("-" * 10**6 + "1")`)},
	}
	for _, endless := range []struct{ name, code string }{
		{"an endless loop", `while True: pass`},
		{"an endless sleep", `time.sleep(10**6)`},
		{"an endless loop that catches everything", "while True:\n    try:\n        while True: pass\n    except BaseException: pass"},
		{"a power in C", `9 ** 9 ** 8`},
		{"a regular expression with catastrophic backtracking", `import re; re.match(r"(a+)+$", "a" * 50 + "b")`},
		{"a sum in C", `sum(range(10**13))`},
		{"an endless loop in a thread", "import threading\nt = threading.Thread(target=lambda: [None for _ in iter(int, 1)])\nt.start(); " +
			"t.join()"},
		{"waiting for a lock", "import threading\nlock = threading.Lock(); lock.acquire(); lock.acquire()"},
		{"waiting for a message that is never sent", `os.read(3, 1)`},
	} {
		cases = append(cases, Case{Name: endless.name, Promise: inTime, NotShown: byHost, Time: 400 * time.Millisecond,
			Ends: []string{"timed_out"}, Must: true, Steps: single(endless.code)})
	}
	return cases
}

// holding returns code that succeeds if n processes hold more than 330 MB at a time, as they count it:
// each calls a function hold of code.
func holding(code string, n int) string {
	return code + fmt.Sprintf(`
import select
r, w = os.pipe()
for _ in range(%[1]d):
    if os.fork() == 0:
        try: os.write(w, struct.pack("Q", hold())); time.sleep(60)
        finally: os._exit(0)
os.close(w); total = n = 0
while n < %[1]d and select.select([r], [], [], 4)[0] and (got := os.read(r, 8)): total += struct.unpack("Q", got)[0]; n += 1
time.sleep(1)
result = total if total > 330 << 20 else 0`, n)
}

// unmapped defines map_, which returns None if it fails, and fill, which makes mappings of 16 MB
// with pages and unmaps all but the first.
const unmapped = `
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def map_(*arguments):
    at = _libc.mmap(*arguments)
    return None if at == ctypes.c_void_p(-1).value else at
def fill(make, touch):
    total = 0
    while total < 330 << 20:
        at = make()
        if at is None: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        touch(at); _libc.munmap(at + 4096, (16 << 20) - 4096)
        total += 16 << 20
        time.sleep(0.02)
    return total
`

func nested(n int) string {
	b := make([]byte, 2*n)
	for i := range n {
		b[i], b[n+i] = '(', ')'
	}
	return string(b)
}
