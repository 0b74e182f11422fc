"""Locks down a forked process: turns it into the sandbox of one tenant.

`prepare` runs in advance and does not depend on a tenant. `bind` attaches the
mounts, sets the limits and drops all privileges; afterwards nothing of the host is
reachable, which `probe` tests. The order of the steps matters. A step that fails
ends the process: there is no weaker mode. `off` is the set of layers that a test
has disabled to prove that an attack succeeds without them.
"""

import errno
import os
import resource
import struct

from .kernel import attempt, buffer, call

NEWNS, NEWUSER, NEWNET, NEWIPC = 0x00020000, 0x10000000, 0x40000000, 0x08000000
NOSUID, NODEV, NOEXEC, REMOUNT = 2, 4, 8, 32
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
_MOVE_EMPTY_BOTH = 0x4 | 0x40  # MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
_RESOLVE = 0x04 | 0x02 | 0x08  # NO_SYMLINKS | NO_MAGICLINKS | BENEATH
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAPBSET_DROP = 38, 47, 24
_PR_SET_DUMPABLE = 4
_CAP_LAST = 40
_CAP_SYS_ADMIN, _CAP_SETUID, _CAP_SETGID, _CAP_SETPCAP = 21, 7, 6, 8

# Landlock rights, by the ABI version that added them.
_FS_EXECUTE, _FS_READ = 0b1, 0b1100  # read: files and directories
_FS_ALL = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_NET_ALL = 0b11
_SCOPE_ALL = 0b11  # abstract unix sockets, signals


def prepare(off, tmp_bytes, own):
    """Give the process its own session, mount namespace and scratch space; with own, its own network and IPC namespaces."""
    os.setsid()
    if own:
        call("unshare", NEWNET | NEWIPC)
    if "mount" not in off:
        call("unshare", NEWNS)
        mount_scratch(b"/tmp", tmp_bytes, off)
        mount_scratch(b"/dev/shm", tmp_bytes, off)
    drop_capabilities(off, keep=(_CAP_SYS_ADMIN, _CAP_SETUID, _CAP_SETGID, _CAP_SETPCAP))


def mount_scratch(path, size, off):
    options = b"size=%d,nr_inodes=20000,mode=1777" % size
    call("mount", b"tmpfs", path, b"tmpfs", scratch_flags(off), options)


def scratch_flags(off):
    return NOSUID | NODEV | (0 if "noexec" in off else NOEXEC)


def bind(header, mounts, off):
    """Attach the mounts, then drop all privileges. header comes from the daemon, not from the tenant."""
    become(header["uid"])  # first, since only the tenant may be able to search the parent of a mount point
    for spec, fd in zip(header["mounts"], mounts, strict=True):
        attach(spec["target"], fd)
        os.close(fd)
    if "mount" not in off and header.get("tmp_bytes"):
        for path in (b"/tmp", b"/dev/shm"):
            call("mount", None, path, None, REMOUNT | scratch_flags(off), b"size=%d" % header["tmp_bytes"])
    os.chdir(header.get("cwd", "/workspace"))
    if "user" not in off:
        call("unshare", NEWUSER)
    drop_capabilities(off, keep=())
    if "no_new_privs" not in off:
        call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if "landlock" not in off:
        landlock(header["landlock"], header["programs"])
    if "rlimits" not in off:
        set_rlimits(header["rlimits"])


def confine(abi, programs, off):
    """Drop all privileges of a zygote before it imports packages. Its workers write where the keeper mounts something."""
    drop_capabilities(off, keep=())
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if "landlock" not in off:
        landlock(abi, programs, ("/",))


def attach(target, fd):
    """Mount fd at target without following links, which the tenant may have planted."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    how = struct.pack("QQQ", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _RESOLVE)
    try:
        at = call("openat2", root, target.lstrip("/").encode() + b"\0", how, len(how))
    finally:
        os.close(root)
    try:
        call("move_mount", fd, b"\0", at, b"\0", _MOVE_EMPTY_BOTH)
    finally:
        os.close(at)


def become(uid):
    """Change to the host uid of the tenant, if it has one (the daemon is root)."""
    if uid:
        call("setgroups", 0, None)
        call("setresgid", uid, uid, uid)
        call("setresuid", uid, uid, uid)


def drop_capabilities(off, keep):
    if "capabilities" in off:
        return
    call("prctl", _PR_CAP_AMBIENT, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL
    if not keep:
        for cap in range(_CAP_LAST + 1):
            e = attempt("prctl", _PR_CAPBSET_DROP, cap, 0, 0, 0)
            if e not in (0, errno.EINVAL):  # EINVAL: this kernel has fewer
                raise OSError(e, "dropping capability %d" % cap)
    low = 0
    for cap in keep:
        low |= 1 << cap
    call("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", low, low, 0, 0, 0, 0))


def landlock(abi, programs, writable=("/workspace", "/tmp", "/dev/shm")):
    """Allow reading everywhere, writing in some directories and executing programs; deny connecting and signalling."""
    handled = _FS_ALL[min(abi, 5)]
    attr = struct.pack("QQQ", handled, _NET_ALL if abi >= 4 else 0, _SCOPE_ALL if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = call("landlock_create_ruleset", attr, size, 0)
    write = handled & ~_FS_EXECUTE
    for path, rights in (
        ("/", _FS_READ), *((path, write) for path in writable),
        ("/dev/null", 0b110 | handled & 0x4000), *((program, _FS_EXECUTE) for program in programs),
    ):
        fd = os.open(path, os.O_PATH)
        call("landlock_add_rule", ruleset, 1, struct.pack("=Qi", rights, fd), 0)
        os.close(fd)
    call("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def set_rlimits(limits):
    """Set the limits; a lower one of the daemon stays, since only privileges could raise it."""
    for name, value in limits.items():  # in the order of the daemon; those of memory are last
        soft, hard = value if type(value) is list else (value, value)
        which = getattr(resource, "RLIMIT_" + name)
        inherited = resource.getrlimit(which)[1]
        if inherited != resource.RLIM_INFINITY:
            hard = min(hard, inherited)
        resource.setrlimit(which, (min(soft, hard), hard))


def filter_(program, off):
    """Load a seccomp program, made by seccomp_linux.go."""
    if "seccomp" in off or not program:
        return
    b, address = program
    fprog = struct.pack("HxxxxxxQ", len(b) // 8, address)
    call("seccomp", 1, 0, fprog)


def probe(off):
    """Test that forbidden calls fail; raise if one succeeds."""
    if off:
        return
    for name, args in (
        ("mount", (None, b"/tmp\0", None, REMOUNT, None)),
        ("unshare", (NEWNS,)),
        ("socket", (2, 1, 0)),
        ("ptrace", (0, 0, None, None)),
    ):
        if not attempt(name, *args):
            raise RuntimeError("the sandbox does not deny %s" % name)
