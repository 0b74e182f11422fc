package sandboxtest

import "time"

const (
	noPrograms     = "Files that code wrote are not executed."
	noReads        = "Code reads no file of the host."
	noWrites       = "Code writes only to its own workspace and scratch space."
	noMounts       = "Code does not change mounts."
	noSwitch       = "it holds in every configuration: no layer that can be disabled is solely responsible"
	hostCapability = "it would require granting capabilities of the host"
)

// copied copies the interpreter, as an example of a program, to each writable directory.
const copied = `
import shutil
home, paths = {"PYTHONHOME": "/python"}, []
for folder in ("/workspace", "/tmp", "/dev/shm"):
    try: shutil.copy("/python/bin/python3.14", folder + "/program")
    except OSError: continue
    os.chmod(folder + "/program", 0o755); paths.append(folder + "/program")
assert paths
`

// files returns attacks that read or change file systems.
func files() []Case {
	return []Case{
		{Name: "read an absolute path", Promise: noReads, Layers: layers("root"),
			Steps: single(`result = open(host["canary"]).read()`)},
		{Name: "read a path with ..", Promise: noReads, Layers: layers("root"),
			Steps: single(`result = open("/workspace/" + "../" * 40 + host["canary"].lstrip("/")).read()`)},
		{Name: "read through a new link", Promise: noReads, Layers: layers("root"),
			Steps: single(`os.symlink(host["canary"], "/workspace/link"); result = open("/workspace/link").read()`)},
		{Name: "read through a new link to the root", Promise: noReads, Layers: layers("root"),
			Steps: single(`os.symlink("/", "/workspace/link"); result = open("/workspace/link" + host["canary"]).read()`)},
		{Name: "read through a planted link", Promise: noReads, Layers: layers("root"), Steps: []Step{
			{By: "mallory", Code: `os.symlink(host["canary"], "/workspace/data.json")`, End: true},
			{By: "mallory/2", Code: `result = open("data.json").read()`}}},
		{Name: "read a planted link with the read helper", Promise: noReads,
			NotShown: "the helper is confined to the workspace in every configuration", Steps: []Step{
				{By: "mallory", Code: `os.symlink(host["canary"], "/workspace/data.json")`, End: true},
				{By: "mallory/2", Code: `result = read_file("data.json")`}}},
		{Name: "hard link to a file of the host", Promise: noReads, Layers: layers("root landlock"),
			Steps: single(`
own = host["dir"] + "/own"
try:
    os.close(os.open(own, os.O_CREAT | os.O_WRONLY, 0o600))
    os.link(own, host["dir"] + "/hard")
    result = "linked"
finally:
    for name in (own, host["dir"] + "/hard"):
        if os.path.exists(name): os.unlink(name)`)},
		{Name: "hard link into the workspace", Promise: noReads, NotShown: "a hard link cannot cross mounts",
			Steps: single(`
for path in ("/etc/passwd", "/python/bin/python3.14", os.__file__, "/dev/null"):
    try:
        os.link(path, "/workspace/hard"); result = path
    except OSError: pass`)},
		{Name: "/proc/self/root", Promise: noReads, Layers: layers("root"),
			Steps: single(`result = open("/proc/self/root" + host["canary"]).read()`)},
		{Name: "/proc/self/cwd with ..", Promise: noReads, Layers: layers("root"),
			Steps: single(`result = open("/proc/self/cwd/../.." + host["canary"]).read()`)},
		{Name: "/proc of the first process", Promise: noReads, Layers: layers("root"),
			Steps: single(`result = open("/proc/1/cmdline").read() or open("/proc/1/status").read()[:60]`)},
		{Name: "/proc of the daemon", Promise: noReads, Layers: layers("root"),
			Steps: single(`result = open("/proc/%d/cmdline" % host["pid"]).read()`)},
		{Name: "kernel file systems", Promise: noReads, Layers: layers("root"),
			Steps: single(`result = [d for d in ("/proc/version", "/sys/kernel", "/proc/sys/kernel/osrelease") if os.path.exists(d)]`)},
		{Name: "/sys/fs/cgroup", Promise: "Code cannot escape its limits.", Layers: layers("root"),
			Steps: single(`result = os.path.exists("/sys/fs/cgroup") and os.listdir("/sys/fs/cgroup") or impossible("no cgroups are ` +
				`mounted")`)},
		{Name: "list the root", Promise: "Code sees a private root.", Layers: layers("root"),
			Steps: single(`result = sorted(set(os.listdir("/")) - {"python", "packages", "workspace", "tmp", "dev", "etc", "proc", ` +
				`"usr", "lib", "lib64", ".roots"})`)},
		{Name: "configuration and users of the host", Promise: noReads, Layers: layers("root"),
			Steps: single(`
import pwd
result = sorted(set(os.listdir("/etc")) - {"passwd", "group", "hosts", "nsswitch.conf"}) + sorted({p.pw_name for p in pwd.getpwall()} - {"root", "sandbox"})`)},
		{Name: "mount roots of the keeper", Promise: "Code does not see the directory of all workspaces.", Layers: layers("root"),
			Steps: single(`result = os.listdir("/.roots/workspaces")`)},
		{Name: "another tenant by the mount roots of the keeper", Promise: "Code reads no file of another tenant.",
			Layers: layers("root uid"), Steps: []Step{
				alice(`open("/workspace/secret", "w").write("alice's")`),
				mallory(`
for folder, _, names in os.walk("/.roots"):
    if "secret" in names: result = open(folder + "/secret").read()`)}},
		{Name: "another tenant by the host path", Promise: "Code reads no file of another tenant.",
			NotShown: "a parent directory of the workspaces on the host is closed to others in every configuration", Steps: []Step{
				alice(`open("/workspace/secret", "w").write("alice's")`),
				mallory(`
for folder, _, names in os.walk("/"):
    if "secret" in names: result = open(folder + "/secret").read()`)}},
		{Name: "inherited descriptors", Promise: "A worker has no open descriptor of the host.",
			NotShown: "no configuration leaves one open",
			Steps: single(`
import stat
open_ = []
for fd in range(4096):
    try: open_.append((fd, oct(os.fstat(fd).st_mode), stat.S_ISDIR(os.fstat(fd).st_mode)))
    except OSError: pass
result = [o for o in open_ if o[0] > 3 or o[2]]`)},
		{Name: "openat from an inherited descriptor", Promise: noReads, NotShown: "no configuration leaves one open",
			Steps: single(`
for fd in range(4096):
    for path in (host["canary"].lstrip("/"), "../" * 20 + host["canary"].lstrip("/")):
        try: result = os.read(os.open(path, os.O_RDONLY, dir_fd=fd), 100).decode()
        except OSError: pass`)},
		{Name: "the channel by /dev/fd", Promise: "A descriptor cannot be reopened.",
			NotShown: "a socket cannot be opened by a path in any configuration",
			Steps: single(`
for path in ("/dev/fd/3", "/proc/self/fd/3", "/dev/stdout", "/dev/stdin"):
    try: os.open(path, os.O_RDWR); result = path
    except OSError: pass`)},
		{Name: "write a file of the host", Promise: noWrites, Layers: layers("root landlock"),
			Steps: single(`
path = host["dir"] + "/planted"
try:
    open(path, "w").write("x"); result = path
finally:
    if os.path.exists(path): os.unlink(path)`)},
		{Name: "an unnamed file in a directory of the host", Promise: noWrites, Layers: layers("root landlock"),
			Steps: single(`
fd = os.open(host["dir"], os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(fd, b"x"); result = "written"`)},
		{Name: "an unnamed file in the root and the library", Promise: noWrites, NotShown: noSwitch,
			Steps: single(`
for path in ("/", "/python", "/python/lib", "/packages", "/etc", "/dev", "/usr", "/proc"):
    try: os.open(path, os.O_TMPFILE | os.O_RDWR, 0o600); result = path
    except OSError: pass`)},
		{Name: "write to the interpreter", Promise: "Code cannot change the interpreter that all tenants share.", NotShown: noSwitch,
			Steps: single(`
got = []
for path in ("/python/planted", "/python/lib/python3.14/planted.py", "/python/lib/python3.14/os.py", "/python/sandpiper/lockdown.py", "/python/bin/python3.14"):
    for f in (lambda: open(path, "ab").write(b"#"), lambda: os.chmod(path, 0o777), lambda: os.utime(path), lambda: os.unlink(path), lambda: os.truncate(path, 0)):
        try: f(); got.append(path)
        except OSError: pass
result = got`)},
		{Name: "write to the packages", Promise: "Code cannot change the packages that all tenants share.", NotShown: noSwitch,
			Steps: single(`
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
		{Name: "remount the packages for writing", Promise: noMounts, NotShown: "not every backend mounts packages",
			Steps: single(`kernel("mount", None, b"/packages", None, 32 | 4096, None); result = "remounted"`)},
		{Name: "write to the root", Promise: noWrites, NotShown: noSwitch,
			Steps: single(`
got = []
for path in ("/planted", "/etc/passwd", "/etc/planted", "/lib/planted", "/usr/planted", "/proc/planted", "/dev/planted"):
    try: open(path, "a").write("x"); got.append(path)
    except OSError: pass
for path in ("/etc", "/workspace", "/tmp", "/dev/null"):
    try: os.rename(path, path + "2"); got.append("rename " + path)
    except OSError: pass
result = got`)},
		{Name: "write to a device", Promise: "Devices other than /dev/null are read-only.", Layers: layers("landlock"),
			Steps: single(`
got = []
for path in ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"):
    try: os.close(os.open(path, os.O_WRONLY)); got.append(path)
    except OSError: pass
result = got`)},
		{Name: "devices of the host", Promise: "The root has exactly five devices.", Layers: layers("root landlock"),
			Steps: single(`
for path in ("/dev/ptmx", "/dev/tty", "/dev/kmsg", "/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/sda", "/dev/vda", "/dev/loop0"):
    try: os.close(os.open(path, os.O_RDWR)); result = path
    except OSError: pass`)},
		{Name: "pseudo terminal", Promise: "Code cannot open a terminal.", Layers: layers("root landlock seccomp"),
			Steps: single(`result = str(os.openpty())`)},
		{Name: "mount", Promise: noMounts, Layers: layers("seccomp capabilities landlock user"),
			Steps: single(`kernel("mount", b"none", b"/tmp", b"tmpfs", 0, None); result = "mounted"`)},
		{Name: "remount the interpreter for writing", Promise: noMounts, Layers: layers("seccomp capabilities landlock user"),
			Steps: single(`kernel("mount", None, b"/python", None, 32 | 4096, None); result = "remounted"`)},
		{Name: "bind mount of the root", Promise: noMounts, Layers: layers("seccomp capabilities landlock user"),
			Steps: single(`os.mkdir("/tmp/all"); kernel("mount", b"/", b"/tmp/all", None, 4096 | 16384, None); result = ` +
				`os.listdir("/tmp/all")`)},
		{Name: "mount in a new namespace", Promise: noMounts, Layers: layers("seccomp user landlock"),
			Steps: single(`
result = child(lambda: (kernel("unshare", 0x10000000 | 0x20000), kernel("mount", b"none", b"/tmp", b"tmpfs", 0, None), "mounted")[2])`)},
		{Name: "mount proc", Promise: noMounts, NotShown: "the kernel's decision depends on the mounts of the host",
			Steps: single(`kernel("mount", b"proc", b"/proc", b"proc", 0, None); result = os.listdir("/proc")`)},
		{Name: "read below a mount", Promise: noMounts, Layers: layers("seccomp capabilities landlock user"),
			Steps: single(`os.chdir("/"); kernel("umount2", b"/workspace", 2); result = "unmounted"`)},
		{Name: "open_tree", Promise: noMounts, Layers: layers("seccomp capabilities user"),
			Steps: single(`result = kernel("open_tree", -100, b"/", 1)`)},
		{Name: "fsopen", Promise: noMounts, Layers: layers("seccomp capabilities user"),
			Steps: single(`result = kernel("fsopen", b"tmpfs", 0)`)},
		{Name: "mount_setattr and move_mount", Promise: noMounts, Layers: layers("seccomp capabilities user"),
			Steps: single(`result = reaches("mount_setattr", -100, b"/nowhere", 0, struct.pack("QQQQ", 1, 0, 0, 0), 32) and ` +
				`reaches("move_mount", -1, b"", -1, b"", 4)`)},
		{Name: "chroot", Promise: "Code does not change its root.", Layers: layers("seccomp capabilities"),
			Steps: single(`os.mkdir("/tmp/root"); os.chroot("/tmp/root"); result = "chroot succeeded"`)},
		{Name: "escape from chroot", Promise: "Code does not change its root.",
			NotShown: "the case chroot shows it; an escape leads only to the private root",
			Steps: single(`
os.mkdir("/tmp/root"); fd = os.open("/", os.O_RDONLY); os.chroot("/tmp/root"); os.fchdir(fd)
for _ in range(40): os.chdir("..")
result = os.listdir(".")`)},
		{Name: "pivot_root", Promise: "Code does not change its root.", Layers: layers("seccomp capabilities user landlock"),
			Steps: single(`os.chdir("/workspace"); result = reaches("pivot_root", b"/workspace", b"/workspace")`)},
		{Name: "open by file handle", Promise: "Code cannot open a file by its handle.", Layers: layers("seccomp"),
			Steps: single(`
handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)), ctypes.c_int()
kernel("name_to_handle_at", -100, b"/tmp", handle, ctypes.byref(mount), 0); result = "got a handle"`)},
		{Name: "named pipe", Promise: "Code can create only files, directories and links.", Layers: layers("seccomp"),
			Steps: single(`os.mkfifo("/workspace/data.json"); result = "made"; os.unlink("/workspace/data.json")`)},
		{Name: "a device", Promise: "Code can create only files, directories and links.", NotShown: hostCapability,
			Steps: single(`
for kind in (0o020666, 0o060666, 0o140666):
    for folder in ("/workspace", "/tmp", "/dev/shm"):
        try: os.mknod(folder + "/node", kind, os.makedev(1, 3)); result = folder
        except OSError: pass`)},
		{Name: "a device by renaming to it", Promise: "Code can create only files, directories and links.", Layers: layers("seccomp"),
			Steps: single(`
tmp("w"); name = [n for n in os.listdir("/tmp") if n.startswith("w.")][0]
kernel("renameat2", -100, ("/tmp/" + name).encode(), -100, b"/tmp/moved", 4)
import stat
result = "a whiteout device" if stat.S_ISCHR(os.lstat("/tmp/" + name).st_mode) else ""`)},
		{Name: "set-user-id by chmod", Promise: "A workspace contains no set-user-id file.", Layers: layers("seccomp"),
			Steps: single(`
fd = os.open("/workspace/suid", os.O_CREAT | os.O_RDWR, 0o700)
got = []
for mode in (0o4755, 0o2755, 0o6777):
    for f in (lambda: os.chmod("/workspace/suid", mode), lambda: os.fchmod(fd, mode), lambda: kernel("fchmodat2", -100, b"/workspace/suid", mode, 0)):
        try: f()
        except OSError: pass
        if os.fstat(fd).st_mode & 0o6000: got.append(oct(mode))
        os.fchmod(fd, 0o700)
result = got`)},
		{Name: "set-user-id by creating", Promise: "A workspace contains no set-user-id file.", Layers: layers("seccomp"),
			Steps: single(`
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
		{Name: "extended attributes", Promise: "Code cannot write extended attributes.", Layers: layers("seccomp"),
			Steps: single(`
tmp("x"); name = "/tmp/" + [n for n in os.listdir("/tmp") if n.startswith("x.")][0]
try: os.setxattr(name, "user.note", b"1"); result = "set"
except OSError as e:
    if e.errno != errno.EOPNOTSUPP: raise
    os.mkdir("/workspace/d"); os.setxattr("/workspace/d", "user.note", b"1"); result = "set"`)},
		{Name: "execute a copied program", Promise: noPrograms, Layers: layers("noexec landlock"),
			Steps: single(copied + `
pid = os.fork()
if pid == 0:
    for path in paths:
        try: os.execve(path, ["program", "-S", "-c", "import os; os._exit(42)"], home)
        except OSError: pass
    os._exit(1)
result = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42`)},
		{Name: "execute a copied program with the loader", Promise: noPrograms, Layers: layers("noexec"),
			Steps: single(copied + `
import glob
for loader in glob.glob("/lib*/ld-linux*") + glob.glob("/lib/*/ld-linux*"):
    for path in paths:
        pid = os.fork()
        if pid == 0:
            try: os.execve(loader, ["loader", path, "-S", "-c", "import os; os._exit(42)"], home)
            finally: os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42: result = path`)},
		{Name: "execute a program other than the interpreter", Promise: "Code can execute only the interpreter.",
			Layers: layers("landlock"),
			Steps: single(`
import glob
paths = [p for p in glob.glob("/lib*/**/libc.so.6", recursive=True) + glob.glob("/usr/lib*/**/libc.so.6", recursive=True) if os.access(p, os.X_OK)]
if not paths: impossible("the C library is not executable on this host")
for path in paths:
    pid = os.fork()
    if pid == 0:
        try: os.execve(path, ["libc"], {})
        finally: os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0: result = path`)},
		{Name: "map a written file as machine code", Promise: noPrograms, Layers: layers("noexec"),
			Steps: single(copied + `
import mmap
got = []
for path in paths:
    with open(path, "rb") as f:
        try: mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC); got.append(path)
        except OSError: pass
result = got`)},
		{Name: "reserved disk space", Promise: "Code allocates disk space only by writing, which is measured.", Layers: layers("seccomp"),
			Steps: single(`fd = tmp(); kernel("fallocate", fd, 1, 0, 8 << 20); result = os.fstat(fd).st_blocks`)},
		{Name: "deep tree", Promise: "The host can remove every tree that code creates.", NotShown: "code is allowed to do this",
			Time: 60 * time.Second,
			Steps: single(`
for _ in range(3000): os.mkdir("d"); os.chdir("d")
open("bottom", "w").write("x")`)},
		{Name: "misleading file names", Promise: "The host can remove files with any name.", NotShown: "code is allowed to do this",
			Steps: single(`
for name in (b"-rf", b"a\nb", b"\x1b[2J", b"\xff\xfe", b"~", b"*", b"CON", b"x" * 255, "\u202e\u0435".encode(), b" ", b"..." , b"a\\b", b"%s%n"):
    open(b"/workspace/" + name, "w").close()
os.symlink("loop", "/workspace/loop")
os.symlink("x" * 4000, "/workspace/long")
os.mkdir("/workspace/closed", 0o000)`)},
	}
}
