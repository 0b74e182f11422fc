"""Imports what the operator lists before the zygote forks.

That code is the operator's choice: it runs before any tenant comes, and whoever
seals a worker later runs in the same interpreter. What fails, or starts a
thread, is told by name; the daemon then begins anew without it, since half an
import is worse than none.
"""

import errno
import importlib
import mmap
import resource
import sys

from . import kernel, seal

_CLONE_THREAD = 0x00010000
_MNT_DETACH = 2
_TMP_BYTES = 64 << 20
_MOST = 1 << 40


def add_path(path):
    """Let packages be found after the standard library, and before the workspace comes."""
    sys.path.append(path)


def preload(names, tell, off):
    """Import names; return how much address space that took, or None if something did not go well."""
    if not names:
        return 0
    before = _address_space()
    scratch = "mount" not in off
    if scratch:  # some packages want a place to write when they are imported
        seal.mount_scratch(b"/tmp", _TMP_BYTES, off)
    try:
        return _address_space() - before if all(_import(name, tell) for name in names) else None
    finally:
        if scratch:
            kernel.call("umount2", b"/tmp\0", _MNT_DETACH)


def _import(name, tell):
    tell({"op": "preloading", "name": name})
    try:
        importlib.import_module(name)
    except BaseException as e:
        tell({"op": "failed", "name": name, "why": ": ".join(filter(None, (type(e).__name__, str(e))))[:500]})
        return False
    if kernel.attempt("unshare", _CLONE_THREAD) == errno.EINVAL:  # does nothing, and only where there is one thread
        tell({"op": "failed", "name": name, "why": "it starts a thread, which a fork would not have"})
        return False
    return True


def _address_space():
    """Return how much of what RLIMIT_AS counts is in use: below which limit no page more can be had.

    There is no /proc to ask. A limit on what code needs of its own has to leave out
    what it was given.
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
