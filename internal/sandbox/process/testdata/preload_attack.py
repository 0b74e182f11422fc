"""Attacks of a preloaded package: FOUND is what its import could do, BOUND what its hook could do in a worker before the lockdown."""

import errno, json, os, socket, sys

from sandpiper import kernel

kernel._NUMBERS.update(chroot=161 if os.uname().machine != "aarch64" else 51)
NEWNS, NEWUSER, NEWPID, NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
HOST = ("/.roots/workspaces", "/root", "/home", "/etc/shadow", "/proc/1/root", "/proc/self/mem", "/sys", HOST_DIR)


def attempts():
    """Return what each attack gave, in a child: the name of an error, or that it succeeded."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(w, json.dumps(_attempts()).encode())
        finally:
            os._exit(0)
    os.close(w)
    data = open(r, "rb").read()
    os.waitpid(pid, 0)
    return json.loads(data)


def _attempts():
    results = {}

    def attack(name, f):
        try:
            f()
        except OSError as e:
            results[name] = errno.errorcode[e.errno]
        else:
            results[name] = "succeeded"

    def call(name, *args):
        attack(" ".join((name, *(str(a) for a in args))), lambda: kernel.call(name, *args))

    def read(path):
        if os.path.isdir(path) and not os.listdir(path):
            raise FileNotFoundError(errno.ENOENT, path)
        if not os.path.isdir(path):
            open(path, "rb").read(1)

    for path in HOST:
        attack("read " + path, lambda: read(path))
    for path in ("/planted", "/etc/planted", "/python/planted", "/packages/planted", "/usr/planted", "/proc/planted", HOST_DIR + "/planted"):
        attack("write " + path, lambda: open(path, "w"))
    for family in socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET:
        attack("socket %d" % family, lambda: socket.socket(family, socket.SOCK_STREAM))
    others = [pid for pid in range(1, 400) if pid not in (os.getpid(), os.getppid())]
    attack("kill another process", lambda: [os.kill(pid, 0) for pid in others if not _absent(pid)] or _raise(errno.ESRCH))
    attack("kill all", lambda: os.kill(-1, 0))
    for pid in 1, 2, os.getppid():
        call("ptrace", 16, pid, 0, 0)
    for name in "mount", "umount2", "chroot", "pivot_root":
        call(name, b"/tmp\0", b"/workspace\0", b"tmpfs\0", 0, None)
    for flags in NEWNS, NEWUSER, NEWNET, NEWPID, NEWUSER | NEWNS, NEWUSER | NEWNS | NEWPID, NEWUSER | NEWNS | NEWPID | NEWNET:
        call("unshare", flags)
    call("setns", 0, 0)
    call("move_mount", -1, b"\0", -100, b"/tmp\0", 4)
    for i in 0, 1, 200000, 200001:
        call("setresuid", i, i, i)
        call("setresgid", i, i, i)
    call("setgroups", 0, None)
    call("capset", b"\x22\x05\x08\x20\0\0\0\0", b"\xff" * 8 + bytes(4) + b"\xff\x01\0\0" * 2 + bytes(4))
    attack("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
    attack("exec", lambda: __import__("subprocess").run(["/usr/bin/env"]))
    return results


def _raise(number):
    raise OSError(number, "")


def _absent(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return True
    return False


FOUND, BOUND = attempts(), {}


def _stay(lockdown):
    bind = lockdown.bind

    def bound(*args):
        BOUND.update(attempts())
        return bind(*args)

    lockdown.bind = bound


_stay(sys.modules["sandpiper.lockdown"])
