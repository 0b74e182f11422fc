"""Imports the operator's list of modules before the zygote forks.

That code has the privileges of a worker: the zygote is locked down before. But it
stays in the interpreter of each worker. A module that fails or starts a thread
is reported by name; the daemon then starts a new zygote without it, since a
partial import is worse than none.
"""

import errno
import importlib
import os
import sys

from . import kernel, lockdown

_CLONE_THREAD = 0x00010000
_MNT_DETACH = 2
TMP_BYTES = 64 << 20


def add_path(path):
    """Add the packages to sys.path, after the standard library and before the workspace, and to that of interpreters that code starts."""
    sys.path.append(path)
    os.environ["PYTHONPATH"] = path  # joblib starts some


def preload(names, report, off, scratch):
    """Import names, with scratch space if there is none; return False if an import failed."""
    if not names:
        return True
    scratch = scratch and "mount" not in off
    if scratch:  # some packages write files when imported
        lockdown.mount_scratch(b"/tmp", TMP_BYTES, off)
    try:
        return all(_import(name, report) for name in names)
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
