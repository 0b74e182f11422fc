"""What ordinary Python does to a kernel: every family of calls, many libraries.

Run as a program it prints what failed; run as an execution its result is that and
what was skipped.
It needs no network and leaves nothing behind. The system-call lists are derived
from it, among others: docs/seccomp.md.
"""

import errno
import importlib
import os
import sys
import tempfile

FAILED, SKIPPED = {}, {}


def part(f):
    """Run f in a directory of its own and note how it failed."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as d:
        os.chdir(d)
        try:
            f()
        except BaseException as e:
            FAILED[f.__name__] = f"{type(e).__name__}: {e}"
        finally:
            os.chdir(here)
    return f


def succeed(code, **how):
    """Run code in another interpreter; a call that kills it is seen here."""
    import subprocess

    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **how)
    if p.returncode:
        raise RuntimeError(f"status {p.returncode}: {p.stderr[-500:]}")
    return p.stdout


def square(x):
    return x * x


@part
def names():
    import pathlib
    import shutil

    p = pathlib.Path("a")
    p.write_text("x" * 5000)
    p.chmod(0o640)
    p.rename("b")
    os.replace("b", "c")
    os.link("c", "d")
    os.symlink("c", "e")
    assert os.readlink("e") == "c" and os.path.samefile("c", "e") and os.lstat("e") and os.access("c", os.R_OK)
    os.chown("c", -1, -1)
    os.lchown("e", -1, -1)
    os.utime("c", ns=(1, 2))
    os.utime("e", (3, 4), follow_symlinks=False)
    os.truncate("c", 100)
    pathlib.Path("x/y/z").mkdir(parents=True)
    shutil.copytree(".", "../copied-%d" % os.getpid(), symlinks=True)
    shutil.rmtree("../copied-%d" % os.getpid())
    shutil.move("c", "x/c")
    shutil.make_archive("packed", "zip", "x")
    shutil.disk_usage(".")
    assert sum(1 for _ in os.walk(".")) == 4 and list(pathlib.Path().rglob("*.zip"))
    d = os.open("x", os.O_RDONLY | os.O_DIRECTORY)
    os.stat("c", dir_fd=d)
    os.open("new", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=d)
    os.rename("new", "newer", src_dir_fd=d, dst_dir_fd=d)
    os.unlink("newer", dir_fd=d)
    os.mkdir("f", dir_fd=d)
    os.rmdir("f", dir_fd=d)
    os.access("c", os.R_OK, dir_fd=d, effective_ids=True)
    os.listdir(d)
    os.fchdir(d)
    os.umask(os.umask(0o22))
    os.listxattr("c")
    os.statvfs(".")
    os.pathconf(".", "PC_NAME_MAX")


@part
def descriptors():
    import fcntl
    import mmap
    import termios

    f = os.open("a", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    os.write(f, b"0123456789" * 1000)
    os.pwrite(f, b"x", 5)
    os.writev(f, [b"a", b"b"])
    os.lseek(f, 0, os.SEEK_SET)
    assert os.pread(f, 2, 4) == b"4x" and os.readv(f, [bytearray(3), bytearray(3)]) == 6
    os.preadv(f, [bytearray(3)], 0)
    os.pwritev(f, [b"y"], 0)
    os.fsync(f)
    os.fdatasync(f)
    os.posix_fallocate(f, 0, 20000)
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    os.ftruncate(f, 9000)
    os.fchmod(f, 0o600)
    os.fchown(f, -1, -1)
    g = os.open("b", os.O_RDWR | os.O_CREAT)
    try:
        assert os.sendfile(g, f, 0, 10) == 10
    except OSError as e:  # without a cgroup
        assert e.errno == errno.ENOTSOCK
    fcntl.lockf(f, fcntl.LOCK_EX)
    fcntl.fcntl(f, fcntl.F_GETFL)
    os.set_inheritable(f, True)
    os.close(os.dup(f))
    os.dup2(f, 60)
    os.closerange(60, 70)
    assert not os.isatty(f)
    try:
        termios.tcgetattr(f)
    except termios.error:
        pass
    with mmap.mmap(f, 4096) as m:
        m[:3] = b"abc"
        m.flush()
    with mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
        m[0] = 1
        m.madvise(mmap.MADV_DONTNEED)
        m.resize(1 << 21)
    r, w = os.pipe2(os.O_NONBLOCK)
    os.set_blocking(r, True)
    os.write(w, b"1")
    assert fcntl.ioctl(r, termios.FIONREAD, b"\0\0\0\0")[0] == 1


@part
def databases():
    import dbm.dumb
    import shelve
    import sqlite3

    for mode in ("delete", "wal", "memory"):
        with sqlite3.connect("%s.db" % mode) as c:
            c.execute("pragma journal_mode=" + mode)
            c.execute("pragma mmap_size=1000000")
            c.execute("create table t(a, b)")
            c.executemany("insert into t values(?, ?)", ((i, str(i)) for i in range(5000)))
            c.commit()
            assert c.execute("select count(*) from t where b like '%9'").fetchone() == (500,)
            c.execute("vacuum")
        c.close()
    with shelve.open("s") as s, dbm.dumb.open("d", "c") as d:
        s["a"] = d["b"] = b"1"


@part
def children():
    import signal
    import subprocess

    assert succeed("print(input())", input="7\n") == "7\n"
    succeed("import os; os.setsid()", start_new_session=False, preexec_fn=os.getpid, close_fds=False)
    succeed("0", process_group=0, umask=0o77, restore_signals=True)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.PIPE) as p:
        os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG)
        p.terminate()
        assert p.wait(10) == -signal.SIGTERM
    for spawn in (os.spawnv, lambda mode, *a: os.posix_spawn(*a, os.environ)):
        pid = spawn(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "0"])
        assert os.wait4(pid, 0)[1] == 0
    pid = os.fork()
    if not pid:
        os.execve(sys.executable, [sys.executable, "-c", "raise SystemExit(9)"], os.environ)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


@part
def loops():
    import asyncio
    import errno
    import select
    import selectors
    import socket

    async def main():
        await asyncio.to_thread(square, 3)
        p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(2)", stdout=-1)
        assert (await p.communicate())[0] == b"2\n"
        a, b = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=a)
        writer.write(b"x" * 10)
        await writer.drain()
        assert len(b.recv(100)) >= 10
        b.sendall(b"line\n")
        assert await reader.readline() == b"line\n"
        writer.close()
        b.close()
        async with asyncio.timeout(5), asyncio.TaskGroup() as g:
            g.create_task(asyncio.sleep(0.01))
        asyncio.get_running_loop().add_signal_handler(10, print)

    asyncio.run(main())
    a, b = socket.socketpair()
    a.settimeout(0.01)
    b.setblocking(False)
    a.sendall(b"1")
    assert b.recv_into(bytearray(3)) == 1
    with a.makefile("rw") as f:
        f.write("text")
    a.getsockname(), a.getpeername(), a.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
    a.shutdown(socket.SHUT_WR)
    for kind in (selectors.DefaultSelector, selectors.PollSelector, selectors.SelectSelector):
        with kind() as s:
            s.register(b, selectors.EVENT_READ)
            s.select(0.01)
    select.poll().poll(1)
    try:
        select.epoll().poll(0.001, 10)
    except OSError as e:  # what a sandbox answers
        assert e.errno == errno.ENOSYS


@part
def threads():
    import concurrent.futures
    import queue
    import threading

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(square, range(50)))[7] == 49
    done = threading.Event()
    threading.Timer(0.01, done.set).start()
    assert done.wait(5)
    lock, condition, local = threading.RLock(), threading.Condition(), threading.local()
    with lock, condition:
        condition.wait(0.001)
        local.x = 1
    threading.Thread(target=threading.get_native_id, name="named").start()
    threading.Barrier(1).wait()
    try:
        queue.Queue().get(timeout=0.001)
    except queue.Empty:
        pass
    import _interpreters

    other = _interpreters.create()
    _interpreters.exec(other, "import json")
    _interpreters.destroy(other)


@part
def processes():
    import concurrent.futures
    import multiprocessing
    from multiprocessing import shared_memory

    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool:
        assert pool.map(square, range(10))[3] == 9
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as pool:
        assert pool.submit(square, 4).result(60) == 16
    q, lock, value = fork.SimpleQueue(), fork.Lock(), fork.Value("i", 0)
    p = fork.Process(target=q.put, args=("here",))
    p.start()
    assert q.get() == "here" and p.join(60) is None and p.exitcode == 0
    with lock, value.get_lock():
        value.value += 1
    s = shared_memory.SharedMemory(create=True, size=1000)
    s.buf[0] = 1
    s.close()
    s.unlink()


@part
def signals():
    import faulthandler
    import signal

    old = signal.signal(signal.SIGALRM, lambda *a: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    signal.alarm(1)
    signal.alarm(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.SIGUSR1 in signal.sigpending() and signal.sigwait([signal.SIGUSR1])
    signal.sigtimedwait([signal.SIGUSR2], 0.001)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    signal.raise_signal(signal.SIGCHLD)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.signal(signal.SIGALRM, old)
    faulthandler.dump_traceback_later(100)
    faulthandler.cancel_dump_traceback_later()


@part
def questions():
    import getpass
    import grp
    import locale
    import platform
    import pwd
    import resource
    import time
    import uuid
    import zoneinfo

    os.cpu_count(), os.process_cpu_count(), os.sched_getaffinity(0), os.sched_yield()
    os.getpriority(os.PRIO_PROCESS, 0), os.nice(0), os.sched_getscheduler(0), os.sched_getparam(0), os.sched_rr_get_interval(0)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.getresuid(), os.getresgid(), os.getgroups(), os.getpgid(0), os.getpgrp(), os.getsid(0), os.getppid(), os.times()
    resource.getrusage(resource.RUSAGE_SELF), resource.getrlimit(resource.RLIMIT_AS), resource.prlimit(0, resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for clock in ("CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID", "CLOCK_BOOTTIME"):
        time.clock_gettime(getattr(time, clock)), time.clock_getres(getattr(time, clock))
    time.sleep(0.001)
    os.urandom(8), uuid.uuid1(), uuid.uuid4()
    platform.platform(), platform.libc_ver(), getpass.getuser(), locale.setlocale(locale.LC_ALL, ""), time.tzset()
    pwd.getpwuid(0), grp.getgrgid(0), zoneinfo.ZoneInfo("UTC")


@part
def libraries():
    left_out = {"antigravity", "this", "idlelib", "turtledemo", "tkinter", "turtle", "lib2to3", "ensurepip"}
    for name in sorted(sys.stdlib_module_names - left_out):
        if not name.startswith("_"):
            try:
                importlib.import_module(name)
            except ImportError:
                pass  # of other systems
    import bz2, ctypes, decimal, gzip, hashlib, lzma, tarfile, tracemalloc, urllib.request, xml.etree.ElementTree, zipfile

    ctypes.CFUNCTYPE(None)(lambda: None)()
    for m in (gzip, bz2, lzma):
        assert m.decompress(m.compress(b"x" * 1000)) == b"x" * 1000
    with tarfile.open("t.tar.gz", "w:gz") as t, zipfile.ZipFile("z.zip", "w") as z:
        t.add(sys.executable, "python", filter=lambda i: None)
        z.writestr("a", "b")
    hashlib.scrypt(b"a", salt=b"b", n=2, r=8, p=1) if hasattr(hashlib, "scrypt") else None
    decimal.Decimal(2).sqrt(decimal.Context(1000))
    xml.etree.ElementTree.fromstring("<a/>")
    urllib.request.urlopen("data:,x").read()
    tracemalloc.start(), tracemalloc.stop()


@part
def newer():
    """Calls that this interpreter may have been built without."""
    import signal
    import time

    a, b = os.open("a", os.O_RDWR | os.O_CREAT), os.open("b", os.O_RDWR | os.O_CREAT)
    os.write(a, b"12345")
    for name, use in {
        "copy_file_range": lambda call: call(a, b, 5, 0),
        "pidfd_open": lambda call: signal.pidfd_send_signal(call(os.getpid()), 0),
        "getrandom": lambda call: call(8),
        "eventfd": lambda call: os.eventfd_write(call(0), 1),
        "timerfd_create": lambda call: os.timerfd_settime(call(time.CLOCK_MONOTONIC), initial=0.001),
    }.items():
        if hasattr(os, name):
            use(getattr(os, name))


@part
def memory():
    blocks = [bytearray(1 << n) for n in range(10, 26)]
    del blocks[::2]
    blocks += [b"x" * 100_000 for _ in range(100)]
    bytearray(10 << 20).extend(bytes(20 << 20))
    import gc

    gc.collect()


@part
def packages():
    """The packages that code is most often written for, where they are installed."""
    try:
        import numpy
        import pandas
    except ImportError as e:
        SKIPPED["packages"] = str(e)
        return
    a = numpy.random.default_rng(1).normal(size=(500, 500))
    numpy.linalg.svd(a @ a.T)
    numpy.save("a.npy", a)
    numpy.load("a.npy", mmap_mode="r").sum()
    f = pandas.DataFrame(a).melt()
    f.groupby("variable").value.agg(["mean", "std"]).to_csv("f.csv")
    pandas.read_csv("f.csv").sort_values("mean").to_json("f.json")


result = {"failed": FAILED, "skipped": SKIPPED}
if __name__ == "__main__" and "sandpiper" not in sys.modules:
    print(FAILED or "all of it went well")
    sys.exit(bool(FAILED))
