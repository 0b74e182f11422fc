#!/python/bin/python3.14 -PsSB
"""Pid 1 of a guest: starts a zygote, waits for a snapshot, then serves one sandbox.

It has four virtio-serial ports. Over "control" it exchanges lines of JSON with the
daemon; "channel", "stdout" and "stderr" are those of the worker. The daemon takes the
snapshot after `ready`, and sends `open` to each guest that it restores, so that no two
guests fork a worker from the same random state. The guest is not an isolation boundary
to the daemon: code may control all of it.
"""

import base64
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, "/python")
from sandpiper import kernel
from sandpiper.kernel import call

NOSUID, NODEV, NOEXEC, BIND, MOVE, REC, PRIVATE, RDONLY, REMOUNT = 2, 4, 8, 4096, 8192, 16384, 1 << 18, 1, 32
_AT_FDCWD, _AT_EMPTY_PATH, _CLONE_TREE = -100, 0x1000, 1 | os.O_CLOEXEC
_NEWCGROUP = 0x02000000
_COMPRESSED = 4  # MODULE_INIT_COMPRESSED_FILE
_RNDADDENTROPY, _RNDRESEEDCRNG = 0x40085203, 0x5207
_ROOT, _SHARED, _GROUP = "/root", "/shared", "/sys/fs/cgroup/worker"
_PORTS = ("control", "channel", "stdout", "stderr")
_BLOCK = 1 << 16
kernel._NUMBERS.update(open_tree=428, mount_setattr=442, finit_module=313)


def main():
    for kind, at in (("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("cgroup2", "/sys/fs/cgroup"), ("tmpfs", _ROOT)):
        mount(kind, at, kind, NOSUID)
    with open("/guest.json") as f:
        config = json.load(f)
    reseed(base64.b64decode(config["seed"]))
    load_modules(config["modules"])
    ports = find_ports()
    control = Control(ports["control"])
    zygote, unfit = start_zygote(config)
    control.send(op="ready", unfit=unfit)
    sandbox = Sandbox(control, ports, zygote)
    while True:
        sandbox.handle(control.receive())


def mount(source, at, kind, flags, data=None):
    call("mount", source and source.encode() + b"\0", at.encode() + b"\0", kind and kind.encode() + b"\0", flags, data)


def load_modules(names):
    """Load modules of the kernel, each after those whose symbols it needs."""
    while names:
        missing = []
        for name in names:
            with open("/modules/" + name) as f:
                flags = 0 if name.endswith(".ko") else _COMPRESSED
                e = kernel.attempt("finit_module", f.fileno(), b"\0", flags)
            if e == errno.ENOENT:
                missing.append(name)
            elif e not in (0, errno.EEXIST):
                raise OSError(e, os.strerror(e), name)
        if len(missing) == len(names):
            raise OSError("modules %s need others" % missing)
        names = missing


def find_ports():
    """Return the descriptor of each port, by name, when the host has reported them all."""
    base, found = "/sys/class/virtio-ports", {}
    while not found.keys() >= set(_PORTS):
        time.sleep(0.002)
        for entry in os.listdir(base):
            try:
                with open(f"{base}/{entry}/name") as f:
                    found[f.read().strip()] = "/dev/" + entry
            except FileNotFoundError:
                pass  # it has no name yet
    return {name: os.open(found[name], os.O_RDWR | os.O_CLOEXEC) for name in _PORTS}


class Control:
    def __init__(self, fd):
        self.fd, self.rest, self.lock = fd, b"", threading.Lock()

    def send(self, **message):
        with self.lock:
            write_all(self.fd, json.dumps(message).encode() + b"\n")

    def receive(self):
        while b"\n" not in self.rest:
            self.rest += os.read(self.fd, _BLOCK)
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


# --- the zygote


class Unfit(Exception):
    """A module that cannot be imported: its name and the reason."""


def start_zygote(config):
    """Return the socket of a zygote that has settled, and the modules that it cannot import."""
    unfit = {}
    while True:
        config["init"]["preload"] = [name for name in config["init"]["preload"] if name not in unfit]
        try:
            return settle(config), unfit
        except Unfit as e:
            unfit[e.args[0]] = e.args[1]


def settle(config):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            exec_zygote(config, theirs)
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(70)
    theirs.close()
    ours.send(json.dumps(config["init"]).encode())
    module, op = None, None
    while op != "settled":
        ours.settimeout(module and config["import_seconds"])
        try:
            data = receive(ours)
        except TimeoutError:
            end(pid)
            raise Unfit(module, "its import took longer than %.3g seconds" % config["import_seconds"]) from None
        if not data:
            _, status = os.waitpid(pid, 0)
            if module is None:
                raise RuntimeError("the zygote ended with status %d" % status)
            raise Unfit(module, "its import ended the interpreter")
        message = json.loads(data)
        op = message["op"]
        if op == "preloading":
            module = message["name"]
        elif op == "ready":
            module = None
        elif op == "failed":
            end(pid)
            raise Unfit(message["name"], message["why"])
    return ours


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def exec_zygote(config, control):
    os.unshare(os.CLONE_NEWNS | os.CLONE_NEWNET | os.CLONE_NEWIPC | os.CLONE_NEWUTS | _NEWCGROUP)
    socket.sethostname("sandbox")
    build_root(config)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(control.fileno(), 3)
    os.closerange(4, 256)
    os.execve(config["program"], config["args"], dict(v.split("=", 1) for v in config["env"]))


def build_root(config):
    """Make a small read-only tree the root: all else of the guest disappears below it."""
    mount(None, "/", None, REC | PRIVATE)
    for name in config["dirs"]:
        os.makedirs(_ROOT + name, exist_ok=True)
    for name in config["trees"]:
        os.makedirs(_ROOT + name, exist_ok=True)
        mount(name, _ROOT + name, None, BIND)
        mount(None, _ROOT + name, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV)
    for name in config["devices"]:
        os.close(os.open(_ROOT + name, os.O_CREAT | os.O_WRONLY, 0o444))
        mount(name, _ROOT + name, None, BIND)
    mount(None, _ROOT, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV)
    os.chdir(_ROOT)
    mount(".", "/", None, MOVE)
    os.chroot(".")
    os.chdir("/")


# --- the sandbox


class Sandbox:
    def __init__(self, control, ports, zygote):
        self.control, self.ports, self.zygote = control, ports, zygote

    def handle(self, request):
        op = request["op"]
        try:
            if op == "open":
                self.open(request)
            elif op == "clock":
                time.clock_settime_ns(time.CLOCK_REALTIME, request["time"])
            elif op == "usage":
                self.control.send(op="usage", **usage())
        except Exception as e:
            self.control.send(op="failed", error="%s: %s: %s" % (op, type(e).__name__, e))

    def open(self, request):
        reseed(base64.b64decode(request["seed"]))
        time.clock_settime_ns(time.CLOCK_REALTIME, request["time"])
        make_group(request["memory"], request["processes"])
        attach_shared()
        mounts = [open_mount(i, m["read_only"]) for i, m in enumerate(request["mounts"])]
        ours, channel = socket.socketpair()
        out, err = os.pipe(), os.pipe()
        group = os.open(_GROUP + "/cgroup.procs", os.O_WRONLY)
        pid, data, size = self.fork(channel.fileno(), out[1], err[1], group)
        for fd in (out[1], err[1], group):
            os.close(fd)
        channel.close()
        header = request["header"]
        header["landlock"] = call("landlock_create_ruleset", None, 0, 1)
        header["rlimits"]["DATA"] = [limit + data for limit in header["rlimits"]["DATA"]]
        header["rlimits"]["AS"] += size
        socket.send_fds(ours, [json.dumps(header).encode()], mounts)
        for fd in mounts:
            os.close(fd)
        threading.Thread(target=self.pump_in, args=(ours,), daemon=True).start()
        threading.Thread(target=self.pump_out, args=(ours, out[0], err[0]), daemon=True).start()

    def fork(self, *fds):
        """Fork a worker; return its pid, and the private and total size of the zygote's memory."""
        socket.send_fds(self.zygote, [b'{"id":1,"ahead":false}'], fds)
        data, (pidfd,), _, _ = socket.recv_fds(self.zygote, _BLOCK, 1)
        if json.loads(data)["op"] != "forked":
            raise RuntimeError("unexpected answer of the zygote: %.100s" % data)
        with open("/proc/self/fdinfo/%d" % pidfd) as f:
            pid = int(field(f, "Pid"))
        os.close(pidfd)
        with open("/proc/%d/status" % pid) as f:
            size = int(field(f, "VmSize").split()[0]) << 10
            f.seek(0)
            private = int(field(f, "VmData").split()[0]) << 10
        return pid, private, size

    def pump_in(self, channel):
        try:
            while data := os.read(self.ports["channel"], _BLOCK):
                channel.sendall(data)
        except OSError:
            pass  # the worker has ended

    def pump_out(self, channel, out, err):
        """Copy what the worker writes, until it closes the channel. Output precedes the frames that were written after it."""
        pipes = {out: self.ports["stdout"], err: self.ports["stderr"]}
        poll = select.poll()
        for fd in (channel.fileno(), *pipes):
            poll.register(fd, select.POLLIN)
        for fd in pipes:
            os.set_blocking(fd, False)
        frames = None
        while frames != b"":
            ready = [fd for fd, _ in poll.poll()]
            frames = receive(channel) if channel.fileno() in ready else None
            for fd in list(pipes):
                while data := read(fd):
                    write_all(pipes[fd], data)
                if data == b"":
                    poll.unregister(fd)
                    del pipes[fd]
            write_all(self.ports["channel"], frames)
        self.control.send(op="closed")
        message = json.loads(self.zygote.recv(_BLOCK))
        self.control.send(**usage() | message)


def receive(sock):
    try:
        return sock.recv(_BLOCK)
    except ConnectionError:
        return b""


def read(fd):
    """Return what is in a pipe, b"" at its end, None if it is empty."""
    try:
        return os.read(fd, _BLOCK)
    except BlockingIOError:
        return None


def field(lines, name):
    for line in lines:
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    raise KeyError(name)


def reseed(seed):
    """Replace the random state, which all guests of a snapshot share."""
    with open("/dev/urandom", "wb") as f:
        fcntl.ioctl(f, _RNDADDENTROPY, struct.pack("ii", 8 * len(seed), len(seed)) + seed)
        fcntl.ioctl(f, _RNDRESEEDCRNG, 0)


def make_group(memory, processes):
    with open("/sys/fs/cgroup/cgroup.subtree_control", "w") as f:
        f.write("+memory +pids")
    os.mkdir(_GROUP)
    for name, value in (("memory.max", memory), ("memory.oom.group", 1), ("pids.max", processes)):
        with open(f"{_GROUP}/{name}", "w") as f:
            f.write(str(value))


def usage():
    def number(name, key):
        with open(f"{_GROUP}/{name}") as f:
            return int(next(line.split()[1] for line in f if line.startswith(key)))

    memory = {}
    try:
        with open(_GROUP + "/memory.peak") as f:
            memory["memory"] = int(f.read())
    except OSError:
        pass  # Linux before 5.19
    return memory | {"cpu": number("cpu.stat", "usage_usec") / 1e6, "killed": number("memory.events", "oom_kill ") > 0}


def attach_shared():
    """Mount the directories that the host shares, as soon as their device has been found."""
    for _ in range(5000):
        try:
            mount("shared", _SHARED, "virtiofs", NOSUID | NODEV | NOEXEC)
            return
        except OSError as e:
            error = e
            time.sleep(0.002)
    raise error


def open_mount(number, read_only):
    fd = call("open_tree", _AT_FDCWD, b"%s/%d\0" % (_SHARED.encode(), number), _CLONE_TREE)
    flags = NOSUID | NODEV | NOEXEC | (RDONLY if read_only else 0)  # MOUNT_ATTR_ flags have the same values
    attr = struct.pack("QQQQ", flags, 0, PRIVATE, 0)
    call("mount_setattr", fd, b"\0", _AT_EMPTY_PATH, attr, len(attr))
    return fd


main()
