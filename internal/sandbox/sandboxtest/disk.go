package sandboxtest

import (
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

const (
	quota     = "A workspace takes no more disk space than its quota."
	fileQuota = "A workspace has no more names than its quota."
)

// disk returns attacks on the disk of the host. Each takes far more than its quota, and keeps it
// for longer than the interval of measurements: other programs that free space at the same moment
// can hide the usage until the next measurement.
func disk() []Case {
	bytes := sandbox.Limits{WorkspaceDisk: 32 << 20}
	files := sandbox.Limits{WorkspaceFiles: 500}
	attack := func(name, promise string, limits sandbox.Limits, code string) Case {
		return Case{
			Name:    name,
			Promise: promise,
			Layers:  layers("disk"),
			Limits:  limits,
			Ends:    []string{"over_limit:disk"},
			Must:    true,
			Time:    2 * time.Minute,
			Steps:   single(code + "\ntime.sleep(5)"),
		}
	}
	return []Case{
		attack("disk filled by many processes", quota, bytes, `
block = bytes(1 << 20)
def fill(n):
    with open(f"/workspace/{n}", "wb", 0) as f:
        for _ in range(50): f.write(block)
pids = []
for n in range(4):
    pid = os.fork()
    if pid == 0: fill(n); os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)
result = sum(os.stat(f"/workspace/{n}").st_blocks * 512 for n in range(4))`),
		attack("disk in deleted files that are open", quota, bytes, `
kept, total = [], 0
for n in range(8):
    fd = os.open(f"/workspace/{n}", os.O_CREAT | os.O_RDWR); os.unlink(f"/workspace/{n}"); kept.append(fd)
    os.posix_fallocate(fd, 0, 25 << 20)
    total += os.fstat(fd).st_blocks * 512
result = total`),
		attack("disk in unnamed files", quota, bytes, `
kept = [os.open("/workspace", os.O_TMPFILE | os.O_RDWR, 0o600) for _ in range(8)]
for fd in kept:
    for _ in range(25): os.write(fd, bytes(1 << 20))
result = sum(os.fstat(fd).st_blocks * 512 for fd in kept)`),
		attack("disk in deleted files that are only mapped", quota, bytes, `
import mmap
kept, total = [], 0
for n in range(12): # each alone is below the quota while it is open
    fd = os.open(f"/workspace/{n}", os.O_CREAT | os.O_RDWR); os.unlink(f"/workspace/{n}")
    for _ in range(16): os.write(fd, bytes(1 << 20))
    kept.append(mmap.mmap(fd, 4096, trackfd=False)); total += os.fstat(fd).st_blocks * 512
    os.close(fd)
result = total`),
		attack("disk in files of a process whose first thread has ended", quota, bytes, `
import threading
pid = os.fork()
if pid == 0:
    def hold():
        fd = os.open("/workspace/kept", os.O_CREAT | os.O_RDWR); os.unlink("/workspace/kept")
        for _ in range(200): os.write(fd, bytes(1 << 20))
        time.sleep(5)
        os._exit(0)
    threading.Thread(target=hold).start()
    kernel("exit", 0)
result = os.waitpid(pid, 0)[1] == 0 and "200 MB"`),
		attack("disk in a tree deeper than the longest path", quota, bytes, `
for _ in range(150): os.mkdir("d" * 40); os.chdir("d" * 40)
total = 0
for n in range(8):
    with open(str(n), "wb", 0) as f:
        for _ in range(25): total += f.write(bytes(1 << 20))
result = total`),
		attack("disk allocated by writing to a mapping of a sparse file", quota, bytes, `
import mmap
total = 0
for n in range(4):
    fd = os.open(f"/workspace/{n}", os.O_CREAT | os.O_RDWR); os.ftruncate(fd, 50 << 20)
    m = mmap.mmap(fd, 50 << 20)
    for at in range(0, len(m), 4096): m[at] = 1
    m.flush(); m.close(); total += os.fstat(fd).st_blocks * 512; os.close(fd)
result = total`),
		attack("disk in directories that move", quota, bytes, `
os.mkdir("a"); os.mkdir("b"); os.mkdir("a/full")
pid = os.fork()
if pid == 0:
    while True:
        os.rename("a/full", "b/full"); os.rename("b/full", "a/full")
fd = os.open("a", os.O_RDONLY); total = 0
at = None
while at is None:
    try: at = os.open("a/full", os.O_RDONLY)
    except OSError: pass
for n in range(8):
    f = os.open(str(n), os.O_CREAT | os.O_RDWR, dir_fd=at)
    for _ in range(25): total += os.write(f, bytes(1 << 20))
    os.close(f)
result = total`),
		attack("disk of a directory with long names", quota, sandbox.Limits{WorkspaceDisk: 4 << 20}, `
fd = os.open("/workspace/a", os.O_CREAT | os.O_RDWR)
for n in range(40_000): os.link("/workspace/a", f"/workspace/{n:06}" + "x" * 240)
result = os.stat("/workspace").st_size`),
		attack("many files", fileQuota, files, `
def fill(p):
    os.mkdir(f"/workspace/{p}")
    for n in range(1500): os.close(os.open(f"/workspace/{p}/{n}", os.O_CREAT | os.O_WRONLY))
pids = []
for p in range(2):
    pid = os.fork()
    if pid == 0: fill(p); os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)
result = "3,000 files"`),
		attack("many directories", fileQuota, files, `
for n in range(2000): os.mkdir(f"/workspace/{n}")
result = "2,000 directories"`),
		attack("many names of one file", fileQuota, files, `
os.close(os.open("/workspace/a", os.O_CREAT | os.O_WRONLY))
for n in range(40_000): os.link("/workspace/a", f"/workspace/{n}")
result = "40,000 names"`),
		attack("many links", fileQuota, files, `
for n in range(2000): os.symlink("x", f"/workspace/{n}")
result = "2,000 links"`),
		attack("many deleted files", fileQuota, sandbox.Limits{WorkspaceFiles: 200, OpenFiles: 256}, `
done, ready = os.pipe()
wait, end = os.pipe()
pids = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        os.close(end)
        kept = [os.open("/workspace", os.O_TMPFILE | os.O_RDWR, 0o600) for _ in range(200)]
        os.write(ready, b"x"); os.read(wait, 1); os._exit(0)
    pids.append(pid)
got = 0
while got < 20: got += len(os.read(done, 20))
time.sleep(5)
os.close(end)
for pid in pids: os.waitpid(pid, 0)
result = "4,000 deleted files"`),
		attack("disk filled by a sleeping program", quota, bytes, `
with open("/workspace/a", "wb", 0) as f:
    for _ in range(40): f.write(bytes(1 << 20)); time.sleep(0.05)
result = "40 MB"`),
	}
}
