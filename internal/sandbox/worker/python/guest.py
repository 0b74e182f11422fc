"""The worker of a sandbox with a kernel of its own: one interpreter that is not forked.

The kernel of the guest has no other processes, files or devices than those of this
sandbox. The worker applies its own restrictions too, as far as that kernel knows them.
It receives a header, one line of JSON, and then only frames.
"""

import base64
import gc
import importlib
import os
import resource

from . import kernel, lockdown, preload, runtime

_CHANNEL = 3
_THREAD_STACK = 2 << 20  # as in the zygote
_BIND = 0x1000
_PAGE, _PRIVATE_ANONYMOUS = 4096, 0x22
_LOCKED_DOWN = b"\0\0\0\2S\0\0\0\0{}"  # frame S: the daemon may send code
_WITHOUT = frozenset(("mount", "user", "landlock", "rlimits"))  # the mounts and the namespace exist then, gVisor has no Landlock, and limits follow


def main():
    try:
        kernel.set_thread_stack(_THREAD_STACK)
        rehearsal = runtime.warm()
        header = runtime._loads(_line().decode())
        if header["packages"]:
            preload.add_path(header["packages"])
        kernel.call("close_range", _CHANNEL + 1, 0x7FFFFFFF, 0)
        _lock_down(header)
        for name in header["preload"]:  # locked down, since it runs code of packages
            _import(name)
        interpreter = runtime.prepare()
        gc.freeze()
        gc.enable()  # it is off from the start of the interpreter, as in the zygote
        rehearsal.run()
        os.closerange(_CHANNEL + 1, header["rlimits"]["NOFILE"])  # of files that an import left open
        _limit(header)
        os.write(_CHANNEL, _LOCKED_DOWN)
    except BaseException as e:
        os.write(2, ("sandbox: lockdown: %s: %s" % (type(e).__name__, e)).encode())
        os._exit(71)
    runtime.serve(interpreter, _CHANNEL)
    os._exit(0)


def _line():
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(_CHANNEL, 1 << 16)  # nothing else is sent before the lockdown
        if not data:
            os._exit(0)
        line += data
    return line


def _import(name):
    try:
        importlib.import_module(name)
    except BaseException as e:
        os.write(2, ("preloading %s: %s: %s\n" % (name, type(e).__name__, e)).encode())


def _lock_down(header):
    kernel.call("unshare", lockdown.NEWUSER | lockdown.NEWNS)
    for bind in header["binds"]:
        _bind(bind["from"].encode(), bind["to"])
    program = kernel.buffer(base64.b64decode(header["filter"]))
    lockdown.bind(header, (), _WITHOUT)
    lockdown.filter_(program, ())
    lockdown.probe(())


def _limit(header):
    """Set the limits, which are in addition to what the interpreter and the packages use."""
    cpu = header["cpu"]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # gVisor sends SIGKILL, which has other causes, at the hard limit
    header["rlimits"]["DATA"] = header["rlimits"]["AS"] = _address_space() + header["as"]  # the last ones
    lockdown.set_rlimits(header["rlimits"])


def _bind(source, target):
    """Mount source at target, without following links, which code of the tenant may have planted."""
    at = os.open("/", os.O_PATH | os.O_DIRECTORY)
    for name in target.strip("/").split("/"):
        below = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
        os.close(at)
        at = below
    os.fchdir(at)
    os.close(at)
    kernel.call("mount", source, b".", None, _BIND, None)


def _address_space():
    """Return the size of the address space, as RLIMIT_AS counts it. It is the largest limit at which nothing can be mapped."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used, enough = 0, 1 << 40
    while enough - used > _PAGE:
        limit = (used + enough) // 2
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            at = kernel.call("mmap", None, kernel.uint64(_PAGE), 0, _PRIVATE_ANONYMOUS, -1, 0)
        except OSError:
            used = limit
        else:
            kernel.call("munmap", kernel.uint64(at), kernel.uint64(_PAGE))
            enough = limit
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return enough
