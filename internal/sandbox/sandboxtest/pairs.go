package sandboxtest

const isolated = "Sandboxes of two owners are isolated from each other."

// pairs returns attacks of one live sandbox on another.
func pairs() []Case {
	return []Case{
		{Name: "a sibling's scratch files", Promise: isolated, Layers: layers("root mount"), Steps: []Step{
			alice(`
for folder in ("/tmp", "/dev/shm"):
    fd = os.open(folder + "/" + host["unique"], os.O_CREAT | os.O_WRONLY, 0o666); os.fchmod(fd, 0o666); os.write(fd, b"x")`),
			mallory(`result = [f for f in ("/tmp", "/dev/shm") if os.path.exists(f + "/" + host["unique"])]`)}},
		{Name: "a sibling's shared memory", Promise: isolated, Layers: layers("root mount"), Steps: []Step{
			alice(`
import mmap
fd = os.open("/dev/shm/" + host["unique"], os.O_CREAT | os.O_RDWR, 0o666); os.fchmod(fd, 0o666); os.ftruncate(fd, 4096)
shared = mmap.mmap(fd, 4096); shared[:5] = b"alice"`),
			mallory(`
import mmap
fd = os.open("/dev/shm/" + host["unique"], os.O_RDONLY)
result = mmap.mmap(fd, 4096, prot=1)[:5].decode()`)}},
		{Name: "a sibling's workspace", Promise: isolated, Layers: layers("root uid"), Steps: []Step{
			alice(`open("/workspace/data.json", "w").write("alice's")`),
			mallory(`
for folder in ("/workspace", "/.roots/workspaces/alice"):
    if os.path.exists(folder + "/data.json"): result = open(folder + "/data.json").read()`)}},
		{Name: "a sibling in /proc", Promise: isolated, Layers: layers("root pid"), Steps: []Step{
			alice(`result = os.getpid()`),
			mallory(`
if results["alice"] != os.getpid(): result = open("/proc/%d/cmdline" % results["alice"]).read()`)}},
		{Name: "a sibling's descriptor in /proc", Promise: isolated,
			NotShown: "another user namespace prevents it, in addition to the missing /proc", Steps: []Step{
				alice(`fd = os.open("/workspace/open", os.O_CREAT | os.O_RDWR); os.write(fd, b"alice's"); result = [os.getpid(), fd]`),
				mallory(`
pid, fd = results["alice"]
for p in (pid, *range(2, 50)):
    if p == os.getpid(): continue
    try: result = open(f"/proc/{p}/fd/{fd}").read()
    except OSError: pass`)}},
		{Name: "a sibling by pidfd", Promise: isolated, Layers: layers("pid seccomp"), Steps: []Step{
			alice(`result = os.getpid()`),
			mallory(`
if results["alice"] != os.getpid(): result = pidfd(results["alice"])`)}},
		{Name: "a sibling's abstract socket", Promise: isolated, Layers: layers("seccomp landlock"), Own: true, Steps: []Step{
			alice(`
try:
    server = socket.socket(socket.AF_UNIX); server.bind("\0sandboxtest.alice"); server.listen()
except OSError: pass`),
			mallory(`s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect("\0sandboxtest.alice"); result = "connected"`)}},
		{Name: "a sibling on the loopback", Promise: isolated, NotShown: "lo is down in every configuration with a network namespace",
			Steps: []Step{
				alice(`
try:
    server = socket.socket(); server.bind(("127.0.0.1", 7777)); server.listen()
except OSError: pass`),
				mallory(`result = str(socket.create_connection(("127.0.0.1", 7777), 1))`)}},
		{Name: "a sibling's System V memory", Promise: isolated, Layers: layers("seccomp"), Own: true, Steps: []Step{
			alice(`
try: shared = kernel("shmget", 0x5A5A01, 4096, 0o1666)
except OSError: pass`),
			mallory(`result = kernel("shmget", 0x5A5A01, 4096, 0) >= 0`)}},
		{Name: "a sibling's System V semaphores and queues", Promise: isolated, Layers: layers("seccomp"), Own: true, Steps: []Step{
			alice(`
try: shared = kernel("semget", 0x5A5A02, 1, 0o1666), kernel("msgget", 0x5A5A03, 0o1666)
except OSError: pass`),
			mallory(`result = kernel("semget", 0x5A5A02, 1, 0) >= 0 and kernel("msgget", 0x5A5A03, 0) >= 0`)}},
		{Name: "a sibling's message queue", Promise: isolated, Layers: layers("seccomp rlimits landlock"), Own: true, Steps: []Step{
			alice(`
os.umask(0)
try: queue = kernel("mq_open", b"sandboxtest.alice", 0o100 | 2, 0o666, None)
except OSError: pass`),
			mallory(`result = kernel("mq_open", b"sandboxtest.alice", 2, 0, None) >= 0`)}},
		{Name: "a sibling's keys", Promise: isolated, Layers: layers("seccomp uid user"), Steps: []Step{
			alice(`
try: key = kernel("add_key", b"user", b"sandboxtest.alice", b"alice's", 7, -4)
except OSError: pass`),
			mallory(`
key = kernel("keyctl", 10, -4, b"user", b"sandboxtest.alice", 0)
result = key != 0`)}},
		{Name: "which library files a sibling opens", Promise: isolated, Layers: layers("seccomp"), Steps: []Step{
			mallory(`
watch = kernel("inotify_init1", 0o4000); kernel("inotify_add_watch", watch, b"/python/lib/python3.14/colorsys.py", 0x20)`),
			alice(`open("/python/lib/python3.14/colorsys.py").close()`),
			mallory(`if "watch" in globals(): result = len(os.read(watch, 4096))`)}},
		{Name: "when a sibling read a library file", Promise: isolated, NotShown: "read-only mounts keep no access times", Steps: []Step{
			mallory(`
paths = ["/python/lib/python3.14/colorsys.py", "/python/bin/python3.14", "/etc/passwd", *__import__("glob").glob("/lib*/*/libc.so.6")]
before = [os.stat(p).st_atime_ns for p in paths]`),
			alice(`
for p in ["/python/lib/python3.14/colorsys.py", "/python/bin/python3.14", "/etc/passwd", *__import__("glob").glob("/lib*/*/libc.so.6")]: open(p, "rb").read()`),
			mallory(`result = [p for p, b in zip(paths, before) if os.stat(p).st_atime_ns != b]`)}},
		{Name: "a lock of a sibling", Promise: isolated, Layers: layers("seccomp"), Steps: []Step{
			alice(`
import fcntl
try: fcntl.flock(kept := os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError: pass`),
			mallory(`
import fcntl
try: fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: result = "it is held"`)}},
		{Name: "a lease on a shared file", Promise: isolated, Layers: layers("seccomp"), Steps: []Step{
			alice(`pass`),
			mallory(`
try: kernel("fcntl", os.open(os.__file__, os.O_RDONLY), 1024, 0); result = "leased"
except PermissionError as e:
    if e.errno == errno.EACCES: impossible("the interpreter belongs to another uid here")
    raise`)}},
		{Name: "signals between siblings", Promise: isolated, NotShown: "without layers it could kill processes of the host", Steps: []Step{
			alice(`
got = []
for n in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT): signal.signal(n, lambda n, f: got.append(n))
result = os.getpid()`),
			mallory(`
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
for pid in range(2, 200):
    for n in (signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL):
        try: os.kill(pid, n)
        except OSError: pass
for pgid in range(2, 200):
    try: os.killpg(pgid, signal.SIGKILL)
    except OSError: pass`),
			alice(`assert got == [], got`),
			mallory(`pass`)}},
		{Name: "priority of a sibling", Promise: isolated, Layers: layers("pid uid"), Steps: []Step{
			alice(`result = os.getpid()`),
			mallory(`
if results["alice"] != os.getpid(): result = [os.getpriority(os.PRIO_PROCESS, results["alice"])]`)}},
		{Name: "slowing a sibling down", Promise: isolated, NotShown: "without layers it would slow down processes of the host",
			Steps: []Step{
				alice(`result = os.nice(0)`),
				mallory(`
for which in (os.PRIO_USER, os.PRIO_PGRP, os.PRIO_PROCESS):
    for who in (0, os.getuid(), *range(2, 100)):
        try: os.setpriority(which, who, 10)
        except OSError: pass`),
				alice(`assert os.nice(0) == results["alice"], (os.nice(0), results["alice"])`),
				mallory(`pass`)}},
		{Name: "exhausting descriptors and processes of a sibling", Promise: "Limits apply to each sandbox separately.", NotShown: byHost,
			Steps: []Step{
				alice(`pass`),
				mallory(`
kept = []
try:
    while len(kept) < 300: kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
pids = []
try:
    while len(pids) < 200:
        pid = os.fork()
        if pid == 0: time.sleep(20); os._exit(0)
        pids.append(pid)
except OSError: pass
result = {"note": len(pids)}`),
				alice(`
for _ in range(20):
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]`),
				mallory(`pass`)}},
		{Name: "two sandboxes of one tenant", Promise: "Sandboxes of one tenant share only its workspace.",
			NotShown: "the cases above show the layers", Steps: []Step{
				{By: "mallory", Code: `open("/tmp/one", "w").write("x"); open("/workspace/one", "w").write("x")`},
				{By: "mallory/2", Code: `
assert os.path.exists("/workspace/one")
result = os.path.exists("/tmp/one")`}}},
	}
}
