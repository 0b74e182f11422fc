"""Imports the operator's list of modules before the zygote forks.

The operator trusts that code: it runs before any tenant is bound, in the same
interpreter as the lockdown of each worker. A module that fails or starts a thread
is reported by name; the daemon then starts a new zygote without it, since a
partial import is worse than none.
"""

import errno
import importlib
import mmap
import os
import resource
import sys

from . import kernel, lockdown

_CLONE_THREAD = 0x00010000
_MNT_DETACH = 2
_TMP_BYTES = 64 << 20
_MOST = 1 << 40


def add_path(path):
    """Add the packages to sys.path, after the standard library and before the workspace, and to that of interpreters that code starts."""
    sys.path.append(path)
    os.environ["PYTHONPATH"] = path  # joblib starts some


def preload(names, report, off):
    """Import names; return the address space that this took, or None if an import failed."""
    if not names:
        return 0
    before = _address_space()
    scratch = "mount" not in off
    if scratch:  # some packages write files when imported
        lockdown.mount_scratch(b"/tmp", _TMP_BYTES, off)
    try:
        return _address_space() - before if all(_import(name, report) for name in names) else None
    finally:
        if scratch:
            kernel.call("umount2", b"/tmp\0", _MNT_DETACH)


def _import(name, report):
    report({"op": "preloading", "name": name})
    try:
        importlib.import_module(name)
    except BaseException as e:
        report({"op": "failed", "name": name, "why": ": ".join(filter(None, (type(e).__name__, str(e))))[:500]})
        return False
    if kernel.attempt("unshare", _CLONE_THREAD) == errno.EINVAL:  # a no-op that fails if there is more than one thread
        report({"op": "failed", "name": name, "why": "it starts a thread, which a fork would not have"})
        return False
    return True


def _address_space():
    """Return the use that RLIMIT_AS counts: the lowest limit at which one more page can be mapped.

    There is no /proc to read it from. The limit of a worker is raised by the address
    space of preloaded modules.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    low, high = 0, _MOST if hard == resource.RLIM_INFINITY else hard
    try:
        while high - low > mmap.PAGESIZE:
            middle = (low + high) // 2
            resource.setrlimit(resource.RLIMIT_AS, (middle, hard))
            try:
                mmap.mmap(-1, mmap.PAGESIZE).close()
                high = middle
            except (OSError, MemoryError):
                low = middle
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return high
