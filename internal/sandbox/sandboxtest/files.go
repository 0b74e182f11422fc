package sandboxtest

import "time"

const (
	noPrograms = "Files that code wrote are not executed."
	unseen     = "Code reads no file of the host."
	untouched  = "Code writes no file but its own workspace's and its scratch space's."
	noMounts   = "Code changes nothing about what is mounted."
	noSwitch   = "it holds in every configuration: no layer that can be switched off stands alone for it"
	noPromises = "what the host's capabilities guard is never given away to show it"
)

// copied puts the interpreter, a program like any, wherever code may write.
const copied = `
import shutil
home, paths = {"PYTHONHOME": "/python"}, []
for folder in ("/workspace", "/tmp", "/dev/shm"):
    try: shutil.copy("/python/bin/python3.14", folder + "/program")
    except OSError: continue
    os.chmod(folder + "/program", 0o755); paths.append(folder + "/program")
assert paths
`

// files are attacks on what code can see and change of file systems.
func files() []Case {
	return []Case{
		{Name: "read by an absolute path", Promise: unseen, Layers: by("root"),
			Steps: alone(`result = open(host["canary"]).read()`)},
		{Name: "read through dots", Promise: unseen, Layers: by("root"),
			Steps: alone(`result = open("/workspace/" + "../" * 40 + host["canary"].lstrip("/")).read()`)},
		{Name: "read through a link made inside", Promise: unseen, Layers: by("root"),
			Steps: alone(`os.symlink(host["canary"], "/workspace/link"); result = open("/workspace/link").read()`)},
		{Name: "read through a link to the root made inside", Promise: unseen, Layers: by("root"),
			Steps: alone(`os.symlink("/", "/workspace/link"); result = open("/workspace/link" + host["canary"]).read()`)},
		{Name: "read through a link planted before", Promise: unseen, Layers: by("root"), Steps: []Step{
			{By: "mallory", Code: `os.symlink(host["canary"], "/workspace/data.json")`, End: true},
			{By: "mallory/2", Code: `result = open("data.json").read()`}}},
		{Name: "read a link planted before by the helper", Promise: unseen, Unshown: "the helper keeps to the workspace in every configuration", Steps: []Step{
			{By: "mallory", Code: `os.symlink(host["canary"], "/workspace/data.json")`, End: true},
			{By: "mallory/2", Code: `result = read_file("data.json")`}}},
		{Name: "hard link to a file of the host", Promise: unseen, Layers: by("root landlock"),
			Steps: alone(`
own = host["dir"] + "/own"
try:
    os.close(os.open(own, os.O_CREAT | os.O_WRONLY, 0o600))
    os.link(own, host["dir"] + "/hard")
    result = "linked"
finally:
    for name in (own, host["dir"] + "/hard"):
        if os.path.exists(name): os.unlink(name)`)},
		{Name: "hard link into the workspace", Promise: unseen, Unshown: "a link never leads from one mount to another",
			Steps: alone(`
for path in ("/etc/passwd", "/python/bin/python3.14", os.__file__, "/dev/null"):
    try:
        os.link(path, "/workspace/hard"); result = path
    except OSError: pass`)},
		{Name: "/proc/self/root", Promise: unseen, Layers: by("root"),
			Steps: alone(`result = open("/proc/self/root" + host["canary"]).read()`)},
		{Name: "/proc/self/cwd and dots", Promise: unseen, Layers: by("root"),
			Steps: alone(`result = open("/proc/self/cwd/../.." + host["canary"]).read()`)},
		{Name: "/proc of the first process", Promise: unseen, Layers: by("root"),
			Steps: alone(`result = open("/proc/1/cmdline").read() or open("/proc/1/status").read()[:60]`)},
		{Name: "/proc of the daemon", Promise: unseen, Layers: by("root"),
			Steps: alone(`result = open("/proc/%d/cmdline" % host["pid"]).read()`)},
		{Name: "a file system of the kernel", Promise: unseen, Layers: by("root"),
			Steps: alone(`result = [d for d in ("/proc/version", "/sys/kernel", "/proc/sys/kernel/osrelease") if os.path.exists(d)]`)},
		{Name: "/sys/fs/cgroup", Promise: "Code cannot move itself out of its limits.", Layers: by("root"),
			Steps: alone(`result = os.path.exists("/sys/fs/cgroup") and os.listdir("/sys/fs/cgroup") or impossible("no cgroups are mounted")`)},
		{Name: "list the root", Promise: "Code sees a root of its own.", Layers: by("root"),
			Steps: alone(`result = sorted(set(os.listdir("/")) - {"python", "packages", "workspace", "tmp", "dev", "etc", "proc", "usr", "lib", "lib64", ".roots"})`)},
		{Name: "the host's settings and users", Promise: unseen, Layers: by("root"),
			Steps: alone(`
import pwd
result = sorted(set(os.listdir("/etc")) - {"passwd", "group", "hosts", "nsswitch.conf"}) + sorted({p.pw_name for p in pwd.getpwall()} - {"root", "sandbox"})`)},
		{Name: "the keeper's roots", Promise: "Code does not see the directory of all workspaces.", Layers: by("root"),
			Steps: alone(`result = os.listdir("/.roots/workspaces")`)},
		{Name: "another tenant through the keeper's roots", Promise: "Code reads no file of another tenant.", Layers: by("root uid"), Steps: []Step{
			alice(`open("/workspace/secret", "w").write("alice's")`),
			mallory(`
for folder, _, names in os.walk("/.roots"):
    if "secret" in names: result = open(folder + "/secret").read()`)}},
		{Name: "another tenant from the host's tree", Promise: "Code reads no file of another tenant.",
			Unshown: "where the workspaces are on the host, a directory above them is closed to others in every configuration", Steps: []Step{
				alice(`open("/workspace/secret", "w").write("alice's")`),
				mallory(`
for folder, _, names in os.walk("/"):
    if "secret" in names: result = open(folder + "/secret").read()`)}},
		{Name: "descriptors left open", Promise: "No descriptor of the host's is open in a worker.", Unshown: "no switch leaves one open",
			Steps: alone(`
import stat
open_ = []
for fd in range(4096):
    try: open_.append((fd, oct(os.fstat(fd).st_mode), stat.S_ISDIR(os.fstat(fd).st_mode)))
    except OSError: pass
result = [o for o in open_ if o[0] > 3 or o[2]]`)},
		{Name: "openat from a descriptor left open", Promise: unseen, Unshown: "no switch leaves one open",
			Steps: alone(`
for fd in range(4096):
    for path in (host["canary"].lstrip("/"), "../" * 20 + host["canary"].lstrip("/")):
        try: result = os.read(os.open(path, os.O_RDONLY, dir_fd=fd), 100).decode()
        except OSError: pass`)},
		{Name: "the channel by /dev/fd", Promise: "A descriptor cannot be opened anew.", Unshown: "a socket cannot be opened by a path, whichever layer is off",
			Steps: alone(`
for path in ("/dev/fd/3", "/proc/self/fd/3", "/dev/stdout", "/dev/stdin"):
    try: os.open(path, os.O_RDWR); result = path
    except OSError: pass`)},
		{Name: "write a file of the host", Promise: untouched, Layers: by("root landlock"),
			Steps: alone(`
path = host["dir"] + "/planted"
try:
    open(path, "w").write("x"); result = path
finally:
    if os.path.exists(path): os.unlink(path)`)},
		{Name: "an unnamed file in a directory of the host", Promise: untouched, Layers: by("root landlock"),
			Steps: alone(`
fd = os.open(host["dir"], os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(fd, b"x"); result = "written"`)},
		{Name: "an unnamed file in the root and the library", Promise: untouched, Unshown: noSwitch,
			Steps: alone(`
for path in ("/", "/python", "/python/lib", "/packages", "/etc", "/dev", "/usr", "/proc"):
    try: os.open(path, os.O_TMPFILE | os.O_RDWR, 0o600); result = path
    except OSError: pass`)},
		{Name: "write into the interpreter", Promise: "Nobody changes the interpreter that all tenants run.", Unshown: noSwitch,
			Steps: alone(`
got = []
for path in ("/python/planted", "/python/lib/python3.14/planted.py", "/python/lib/python3.14/os.py", "/python/sandpiper/lockdown.py", "/python/bin/python3.14"):
    for f in (lambda: open(path, "ab").write(b"#"), lambda: os.chmod(path, 0o777), lambda: os.utime(path), lambda: os.unlink(path), lambda: os.truncate(path, 0)):
        try: f(); got.append(path)
        except OSError: pass
result = got`)},
		{Name: "write into the packages", Promise: "Nobody changes the packages that all tenants import.", Unshown: noSwitch,
			Steps: alone(`
got = []
for path in ("/packages/planted.py", "/packages/present.py", "/packages/__pycache__/present.cpython-314.pyc", "/packages"):
    for f in (lambda: open(path, "ab").write(b"#"), lambda: os.chmod(path, 0o777), lambda: os.utime(path), lambda: os.unlink(path),
              lambda: os.truncate(path, 0), lambda: os.rename(path, path + "2"), lambda: os.symlink("/workspace", path + "/link")):
        try: f(); got.append(path)
        except OSError: pass
if os.path.exists("/packages/present.py"):
    import mmap
    with open("/packages/present.py", "rb") as f:
        try:
            mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_WRITE)[:1] = b"#"; got.append("shared memory")
        except OSError: pass
result = got`)},
		{Name: "remount the packages for writing", Promise: noMounts, Unshown: "not every backend shows packages",
			Steps: alone(`kernel("mount", None, b"/packages", None, 32 | 4096, None); result = "remounted"`)},
		{Name: "write into the root", Promise: untouched, Unshown: noSwitch,
			Steps: alone(`
got = []
for path in ("/planted", "/etc/passwd", "/etc/planted", "/lib/planted", "/usr/planted", "/proc/planted", "/dev/planted"):
    try: open(path, "a").write("x"); got.append(path)
    except OSError: pass
for path in ("/etc", "/workspace", "/tmp", "/dev/null"):
    try: os.rename(path, path + "2"); got.append("rename " + path)
    except OSError: pass
result = got`)},
		{Name: "write to a device", Promise: "Devices are for reading, but for /dev/null.", Layers: by("landlock"),
			Steps: alone(`
got = []
for path in ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"):
    try: os.close(os.open(path, os.O_WRONLY)); got.append(path)
    except OSError: pass
result = got`)},
		{Name: "devices of the host", Promise: "There are five devices.", Layers: by("root landlock"),
			Steps: alone(`
for path in ("/dev/ptmx", "/dev/tty", "/dev/kmsg", "/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/sda", "/dev/vda", "/dev/loop0"):
    try: os.close(os.open(path, os.O_RDWR)); result = path
    except OSError: pass`)},
		{Name: "a pseudo terminal", Promise: "Code gets no terminal.", Layers: by("root landlock seccomp"),
			Steps: alone(`result = str(os.openpty())`)},
		{Name: "mount", Promise: noMounts, Layers: by("seccomp capabilities landlock user"),
			Steps: alone(`kernel("mount", b"none", b"/tmp", b"tmpfs", 0, None); result = "mounted"`)},
		{Name: "remount the interpreter for writing", Promise: noMounts, Layers: by("seccomp capabilities landlock user"),
			Steps: alone(`kernel("mount", None, b"/python", None, 32 | 4096, None); result = "remounted"`)},
		{Name: "bind the root elsewhere", Promise: noMounts, Layers: by("seccomp capabilities landlock user"),
			Steps: alone(`os.mkdir("/tmp/all"); kernel("mount", b"/", b"/tmp/all", None, 4096 | 16384, None); result = os.listdir("/tmp/all")`)},
		{Name: "mount in a namespace of one's own", Promise: noMounts, Layers: by("seccomp user landlock"),
			Steps: alone(`
result = child(lambda: (kernel("unshare", 0x10000000 | 0x20000), kernel("mount", b"none", b"/tmp", b"tmpfs", 0, None), "mounted")[2])`)},
		{Name: "mount proc", Promise: noMounts, Unshown: "whether the kernel would allow it depends on what the host has mounted",
			Steps: alone(`kernel("mount", b"proc", b"/proc", b"proc", 0, None); result = os.listdir("/proc")`)},
		{Name: "look beneath a mount", Promise: noMounts, Layers: by("seccomp capabilities landlock user"),
			Steps: alone(`os.chdir("/"); kernel("umount2", b"/workspace", 2); result = "unmounted"`)},
		{Name: "open_tree", Promise: noMounts, Layers: by("seccomp capabilities user"),
			Steps: alone(`result = kernel("open_tree", -100, b"/", 1)`)},
		{Name: "fsopen", Promise: noMounts, Layers: by("seccomp capabilities user"),
			Steps: alone(`result = kernel("fsopen", b"tmpfs", 0)`)},
		{Name: "mount_setattr and move_mount", Promise: noMounts, Layers: by("seccomp capabilities user"),
			Steps: alone(`result = reaches("mount_setattr", -100, b"/nowhere", 0, struct.pack("QQQQ", 1, 0, 0, 0), 32) and reaches("move_mount", -1, b"", -1, b"", 4)`)},
		{Name: "chroot", Promise: "Code does not change its root.", Layers: by("seccomp capabilities"),
			Steps: alone(`os.mkdir("/tmp/root"); os.chroot("/tmp/root"); result = "chroot went through"`)},
		{Name: "chroot, and out of it", Promise: "Code does not change its root.", Unshown: "chroot shows that it is stopped; out of it leads to nothing but the private root",
			Steps: alone(`
os.mkdir("/tmp/root"); fd = os.open("/", os.O_RDONLY); os.chroot("/tmp/root"); os.fchdir(fd)
for _ in range(40): os.chdir("..")
result = os.listdir(".")`)},
		{Name: "pivot_root", Promise: "Code does not change its root.", Layers: by("seccomp capabilities user landlock"),
			Steps: alone(`os.chdir("/workspace"); result = reaches("pivot_root", b"/workspace", b"/workspace")`)},
		{Name: "file handles", Promise: "No file is opened by its handle.", Layers: by("seccomp"),
			Steps: alone(`
handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)), ctypes.c_int()
kernel("name_to_handle_at", -100, b"/tmp", handle, ctypes.byref(mount), 0); result = "got a handle"`)},
		{Name: "a pipe with a name", Promise: "Code makes nothing but files, directories and links.", Layers: by("seccomp"),
			Steps: alone(`os.mkfifo("/workspace/data.json"); result = "made"; os.unlink("/workspace/data.json")`)},
		{Name: "a device", Promise: "Code makes nothing but files, directories and links.", Unshown: noPromises,
			Steps: alone(`
for kind in (0o020666, 0o060666, 0o140666):
    for folder in ("/workspace", "/tmp", "/dev/shm"):
        try: os.mknod(folder + "/node", kind, os.makedev(1, 3)); result = folder
        except OSError: pass`)},
		{Name: "a device by renaming", Promise: "Code makes nothing but files, directories and links.", Layers: by("seccomp"),
			Steps: alone(`
tmp("w"); name = [n for n in os.listdir("/tmp") if n.startswith("w.")][0]
kernel("renameat2", -100, ("/tmp/" + name).encode(), -100, b"/tmp/moved", 4)
import stat
result = "a whiteout device" if stat.S_ISCHR(os.lstat("/tmp/" + name).st_mode) else ""`)},
		{Name: "set-user-id by chmod", Promise: "No file of a workspace is set-user-id.", Layers: by("seccomp"),
			Steps: alone(`
fd = os.open("/workspace/suid", os.O_CREAT | os.O_RDWR, 0o700)
got = []
for mode in (0o4755, 0o2755, 0o6777):
    for f in (lambda: os.chmod("/workspace/suid", mode), lambda: os.fchmod(fd, mode), lambda: kernel("fchmodat2", -100, b"/workspace/suid", mode, 0)):
        try: f()
        except OSError: pass
        if os.fstat(fd).st_mode & 0o6000: got.append(oct(mode))
        os.fchmod(fd, 0o700)
result = got`)},
		{Name: "set-user-id by creating", Promise: "No file of a workspace is set-user-id.", Layers: by("seccomp"),
			Steps: alone(`
os.umask(0)
got = []
for f in (lambda: os.close(os.open("/workspace/a", os.O_CREAT | os.O_RDWR, 0o4755)), lambda: os.mkdir("/workspace/b", 0o2777),
          lambda: os.close(os.open("/workspace", os.O_TMPFILE | os.O_RDWR, 0o4755)), lambda: os.mknod("/workspace/c", 0o104755)):
    try: f()
    except OSError: pass
for name in ("a", "b", "c"):
    path = "/workspace/" + name
    if os.path.exists(path) and os.stat(path).st_mode & 0o6000: got.append(name)
result = got`)},
		{Name: "extended attributes", Promise: "Code writes no extended attributes.", Layers: by("seccomp"),
			Steps: alone(`
tmp("x"); name = "/tmp/" + [n for n in os.listdir("/tmp") if n.startswith("x.")][0]
try: os.setxattr(name, "user.note", b"1"); result = "set"
except OSError as e:
    if e.errno != errno.EOPNOTSUPP: raise
    os.mkdir("/workspace/d"); os.setxattr("/workspace/d", "user.note", b"1"); result = "set"`)},
		{Name: "execute a copied program", Promise: noPrograms, Layers: by("noexec"),
			Steps: alone(copied + `
pid = os.fork()
if pid == 0:
    for path in paths:
        try: os.execve(path, ["program", "-S", "-c", "import os; os._exit(42)"], home)
        except OSError: pass
    os._exit(1)
result = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42`)},
		{Name: "execute a copied program by the loader", Promise: noPrograms, Layers: by("noexec"),
			Steps: alone(copied + `
import glob
for loader in glob.glob("/lib*/ld-linux*") + glob.glob("/lib/*/ld-linux*"):
    for path in paths:
        pid = os.fork()
        if pid == 0:
            try: os.execve(loader, ["loader", path, "-S", "-c", "import os; os._exit(42)"], home)
            finally: os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42: result = path`)},
		{Name: "map a written file as machine code", Promise: noPrograms, Layers: by("noexec"),
			Steps: alone(copied + `
import mmap
got = []
for path in paths:
    with open(path, "rb") as f:
        try: mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC); got.append(path)
        except OSError: pass
result = got`)},
		{Name: "space reserved without being written", Promise: "Disk is taken by writing only, so that the watch sees it.", Layers: by("seccomp"),
			Steps: alone(`fd = tmp(); kernel("fallocate", fd, 1, 0, 8 << 20); result = os.fstat(fd).st_blocks`)},
		{Name: "a deep tree", Promise: "The host can remove whatever tree code leaves.", Unshown: "it is allowed", Time: 60 * time.Second,
			Steps: alone(`
for _ in range(3000): os.mkdir("d"); os.chdir("d")
open("bottom", "w").write("x")`)},
		{Name: "names that lead astray", Promise: "The host can remove whatever names code leaves.", Unshown: "it is allowed",
			Steps: alone(`
for name in (b"-rf", b"a\nb", b"\x1b[2J", b"\xff\xfe", b"~", b"*", b"CON", b"x" * 255, "\u202e\u0435".encode(), b" ", b"..." , b"a\\b", b"%s%n"):
    open(b"/workspace/" + name, "w").close()
os.symlink("loop", "/workspace/loop")
os.symlink("x" * 4000, "/workspace/long")
os.mkdir("/workspace/closed", 0o000)`)},
	}
}
