"""The warm parent process that forks workers. It never receives tenant code.

It exchanges JSON messages with the daemon over a SOCK_SEQPACKET socket (descriptor
3). It receives `init` once, maybe with the descriptors for a snapshot, then one
request with the descriptors of each new worker; it replies `forked` with a pidfd and
later sends `exit` with the wait status. Some time after `ready` it sends `settled`:
workers forked after that share more of its memory. It exits when the socket closes.
"""

import _socket
import base64
import collections
import functools
import gc
import json
import os
import select
import sys
import time
import types
from importlib import import_module

from . import forking

with forking.Skippable():
    import threading

    from . import channel, features, hugepages, kernel, later, lockdown, modules, preload, runtime, sharing, snapshot

_CONTROL, _CHANNEL = 3, 3
_NEWPID = 0x20000000
_THREAD_STACK = 2 << 20  # RLIMIT_DATA counts whole stacks, which have 8 MiB where the host has the usual RLIMIT_STACK
_QUIET = 0.05  # seconds in which the first worker has the processors for itself
_SPECIALIZED = 5  # after this many rehearsals, a worker copies no fewer pages
_REQUEST, _HEADER, _RIGHTS = 256, 1 << 14, _socket.CMSG_SPACE(16 * 4)  # bytes of a request, of a header, and of their descriptors
_PLACED = frozenset(("mount", "user"))  # what the keeper does for a worker that is apart
_loads = json.JSONDecoder().decode
_LOCKED_DOWN = b"\0\0\0\2S\0\0\0\0{}"  # frame S: the daemon may send code


def main():
    """Run the zygote. The interpreter was started without garbage collection: no import leaves enough garbage for it."""
    control = _socket.socket(fileno=_CONTROL)
    data, rights, _, _ = control.recvmsg(1 << 20, _RIGHTS)
    init, files = json.loads(data), _descriptors(rights)
    off, apart = frozenset(init["off"]), init["apart"]
    for path in init["unmount"]:  # the roots of the mounts, which no forked process may see
        kernel.call("umount2", path.encode() + b"\0", 2)
    if apart and init["preload"]:  # later it could not
        lockdown.mount_scratch(b"/tmp", preload.TMP_BYTES, off)
    _drop_to(init["uid"])
    kernel.set_thread_stack(_THREAD_STACK)
    first, second = (_program(init[k]) for k in ("filter_first", "filter_second"))
    if apart:
        first = _secret_program(files.pop())
    rehearsal = runtime.warm()
    rest = later.import_steps()
    if init["packages"]:
        preload.add_path(init["packages"])
    if apart:
        lockdown.confine(init["landlock"], init["programs"], off)
    lockdown.filter_(first, off)
    if apart:
        first[0][:] = bytes(len(first[0]))
    if init["preload"]:  # packages import the modules, too
        gc.enable()
        collections.deque(rest, 0)

    def report(message):
        control.send(json.dumps(message).encode())
        if apart:
            control.recv(1)  # until the daemon has looked for what the import before has left

    if not preload.preload(init["preload"], report, off, not apart):
        return
    interpreter = runtime.prepare()
    gc.freeze()  # of the objects until here; a collection takes longer than a fork
    gc.enable()
    control.send(b'{"op":"ready"}')
    worker = functools.partial(_worker, rehearsal, interpreter, init["tmp_bytes"], init["own_namespaces"], off, apart, second)
    _Forker(control, off, apart, worker).serve(settle(rest, rehearsal, files))
    while apart:  # its end would be that of its workers, in its pid namespace
        try:
            os.wait4(-1, 0)
        except ChildProcessError:
            return


def settle(rest, rehearsal, files=()):
    """Complete the memory that workers share, one step at a time; files are for a snapshot of it."""
    yield from rest
    modules.prepare()
    yield
    for module in features.MODULES:
        for name in getattr(module, "SETTLED", ()):
            with forking.Skippable():
                import_module(f"{module.__name__}.{name}")
            yield
    hugepages.move_code()
    yield
    gc.unfreeze()
    gc.collect()
    yield from sharing.fill()
    sharing.gather(lambda: _rehearse(rehearsal), _ours())
    yield
    for _ in range(_SPECIALIZED):
        _rehearse(rehearsal)
        yield
        rehearsal.run(runtime.FAILURES)
        yield
    tracked = gc.get_objects()
    gc.freeze()
    yield
    yield from sharing.make_immortal(tracked)
    gc.collect()  # of few objects: it empties the free lists, whose blocks are anywhere
    yield from sharing.fill()
    _rehearse(rehearsal)
    if files:
        maps, file = files
        with open(maps) as f:
            snapshot.take(f.read(), file)
        os.close(file)


def _rehearse(rehearsal):
    """Run what each worker runs and what has no effect here, to warm the caches of the interpreter."""
    for f in _ours():
        for name in f.__code__.co_names:
            getattr(kernel, name, None)  # caches that the type of modules has no such attribute
    sys.modules["random"].seed()
    modules.rehearse()
    rehearsal.run()  # last: the free memory is then as a worker needs it


def _ours():
    """Yield the functions that run in each worker, some of them only there."""
    for module in forking, kernel, lockdown, channel, sys.modules[__name__]:
        for value in vars(module).values():
            for f in vars(value).values() if type(value) is type else (value,):
                if type(f) is types.FunctionType and f.__module__ == module.__name__:
                    yield f
    yield runtime.serve


def _program(encoded):
    data = base64.b64decode(encoded)
    return kernel.buffer(data) if data else None


def _secret_program(fd):
    """Return the program in a pipe as a buffer of which there is no copy."""
    data = bytearray(1 << 16)
    size = os.readv(fd, (data,))
    os.close(fd)
    del data[size:]
    return kernel.buffer_of(data)


def _drop_to(uid):
    """As root, change to a uid that no tenant has, but keep capabilities."""
    if uid:
        kernel.call("setgroups", 0, None)
        kernel.call("prctl", 8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
        kernel.call("setresgid", uid, uid, uid)
        kernel.call("setresuid", uid, uid, uid)
        low = 1 << 21 | 1 << 7 | 1 << 6 | 1 << 8
        kernel.call("capset", b"\x22\x05\x08\x20\0\0\0\0", low.to_bytes(4, "little") * 2 + bytes(16))


class _Forker:
    """Forks workers. Each fork shares all pages, so the next steps copy each page that they write to: they are few."""

    def __init__(self, control, off, apart, worker):
        self.control, self.off, self.apart, self.worker = control, off, apart, worker
        self.home = kernel.call("pidfd_open", os.getpid(), 0)  # to return to our own pid namespace
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.children = {}  # pidfd -> (id, pid)

    def serve(self, background):
        """Fork workers until the daemon closes the socket; run background steps between requests."""
        settled, begin = False, time.monotonic() + _QUIET
        while True:
            wait = None if settled else max(0, begin - time.monotonic()) * 1000
            for fd, _ in self.poll.poll(wait):
                if fd != self.control.fileno():
                    self.reap(fd)
                elif not self.receive():
                    return
            if not settled and time.monotonic() >= begin and next(background, background) is background:
                settled = True
                self.control.send(b'{"op":"settled"}')

    def receive(self):
        data, rights, _, _ = self.control.recvmsg(_REQUEST, _RIGHTS)
        if not data:
            return False
        request = _loads(data.decode())
        fds = _descriptors(rights)
        try:
            pid = self.fork_apart(fds, request) if self.apart else self.fork(fds, request["ahead"])
        except OSError as e:
            if e.errno not in (11, 12, 28):  # EAGAIN, ENOMEM, ENOSPC: at another time there is room
                raise
            self.control.send(b'{"op":"refused","id":%d,"status":%d}' % (request["id"], e.errno))
            return True
        finally:
            for fd in fds:
                os.close(fd)
        pidfd = kernel.call("pidfd_open", pid, 0)
        self.children[pidfd] = (request["id"], pid)
        self.poll.register(pidfd, select.POLLIN)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pidfd.to_bytes(4, sys.byteorder))
        self.control.sendmsg((b'{"op":"forked","id":%d}' % request["id"],), (rights,))
        return True

    def fork(self, fds, ahead):
        if "pid" not in self.off:
            kernel.call("setns", self.home, _NEWPID)
            kernel.call("unshare", _NEWPID)
        pid = forking.fork()
        if pid == 0:
            try:
                self.worker(fds, ahead)
            finally:
                os._exit(70)
        return pid

    def fork_apart(self, fds, request):
        """Fork a worker in its own namespaces. A child enters them and forks it; it becomes ours when the child ends, since we are pid 1."""
        r, w = os.pipe()
        between = forking.fork()
        if between == 0:
            try:
                pid = 0
                kernel.call("unshare", kernel.uint64(self.apart), *map(kernel.uint64, request["key"]))
                if (pid := forking.fork()) == 0:
                    self.worker(fds, request["ahead"])
            except OSError as e:
                pid = -e.errno
            finally:
                if pid:
                    os.write(w, pid.to_bytes(4, sys.byteorder, signed=True))
                os._exit(70)
        os.close(w)
        data = os.read(r, 4)
        os.close(r)
        os.wait4(between, 0)
        pid = int.from_bytes(data, sys.byteorder, signed=True)
        if pid <= 0:
            raise OSError(-pid, os.strerror(-pid))
        return pid

    def reap(self, pidfd):
        id_, pid = self.children.pop(pidfd)
        _, status, usage = os.wait4(pid, 0)
        self.poll.unregister(pidfd)
        os.close(pidfd)
        cpu = usage.ru_utime + usage.ru_stime
        message = b'{"op":"exit","id":%d,"status":%d,"cpu":%.6f,"rss":%d}'
        self.control.send(message % (id_, status, cpu, usage.ru_maxrss))


def _descriptors(rights):
    return [fd for _, _, some in rights for fd in memoryview(some).cast("i")]


def _worker(rehearsal, interpreter, tmp_bytes, own, off, apart, second, fds, ahead):
    """Run one worker; fds are its channel, stdout, stderr and cgroups."""
    channel, out, err, *groups = fds
    os.dup2(err, 2)  # for the reason of a failure
    try:
        for fd in groups:  # first, so that its memory is charged to its own group
            os.write(fd, b"0")
        threading.main_thread()._set_native_id()
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(channel, _CHANNEL, inheritable=False)  # it is a higher one: 3 is the zygote's socket
        kernel.call("close_range", _CHANNEL + 1, 0x7FFFFFFF, 0)
        if apart:  # the keeper does the rest
            os.setsid()
        else:
            lockdown.prepare(off, tmp_bytes, own)
        if ahead:
            rehearsal.run()
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, _CHANNEL)
        header, rights, _, _ = sock.recvmsg(_HEADER, _RIGHTS)
        if not header:
            os._exit(0)  # the daemon closed the channel
        lockdown.bind(_loads(header.decode()), _descriptors(rights), off | _PLACED if apart else off)
        lockdown.filter_(second, off)
        lockdown.probe(off)
        sock.sendall(_LOCKED_DOWN)
    except BaseException as e:
        os.write(2, ("sandbox: lockdown: %s: %s" % (type(e).__name__, e)).encode())
        os._exit(71)
    runtime.serve(interpreter, _CHANNEL)
    os._exit(0)
