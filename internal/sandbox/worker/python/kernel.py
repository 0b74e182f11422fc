"""System calls that Python has no function for, made through `_ctypes`.

The module `ctypes` is not imported: its import creates a closure, for which
libffi keeps a descriptor or a writable, executable temporary file open, and
every worker forked from the zygote would share it.
"""

import _ctypes
import os
import sys


class _long(_ctypes._SimpleCData):
    _type_ = "l"


class uint32(_ctypes._SimpleCData):
    _type_ = "I"


class uint64(_ctypes._SimpleCData):
    _type_ = "L"


class _char(_ctypes._SimpleCData):
    _type_ = "c"


class _object(_ctypes._SimpleCData):
    _type_ = "O"


class function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _long


class _python_function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_PYTHONAPI  # called with the GIL
    _restype_ = _long


def address(symbol):
    """Return the address of a symbol of the interpreter or its libraries."""
    return _ctypes.dlsym(_ctypes.dlopen(None, 0), symbol)


def _named(name, kind=function):
    return kind(address(name))


_syscall = _named("syscall")
malloc, sbrk, getauxval, errno_location = _named("malloc"), _named("sbrk"), _named("getauxval"), _named("__errno_location")
object_malloc = _named("PyObject_Malloc", _python_function)
_set_async_exc = _named("PyThreadState_SetAsyncExc", _python_function)

_AMD64 = dict(
    mmap=9, mprotect=10, munmap=11, mremap=25, madvise=28, fcntl=72,
    umount2=166, mount=165, unshare=272, setns=308, prctl=157, capset=126,
    setresuid=117, setresgid=119, setgroups=116, prlimit64=302,
    openat2=437, move_mount=429, pivot_root=155, ptrace=101, socket=41, pidfd_open=434,
    landlock_create_ruleset=444, landlock_add_rule=445, landlock_restrict_self=446,
    seccomp=317, close_range=436,
)
_ARM64 = dict(
    mmap=222, mprotect=226, munmap=215, mremap=216, madvise=233, fcntl=25,
    umount2=39, mount=40, unshare=97, setns=268, prctl=167, capset=91,
    setresuid=147, setresgid=149, setgroups=159, prlimit64=261,
    openat2=437, move_mount=429, pivot_root=41, ptrace=117, socket=198, pidfd_open=434,
    landlock_create_ruleset=444, landlock_add_rule=445, landlock_restrict_self=446,
    seccomp=277, close_range=436,
)
_NUMBERS = _ARM64 if os.uname().machine == "aarch64" else _AMD64


def raise_in(thread, kind):
    """Raise an exception in another thread, when it runs Python again."""
    _set_async_exc(uint64(thread), _object(kind))


def set_thread_stack(size):
    """Set the size of the stacks of threads that do not choose one."""
    attributes, at = buffer(bytes(64))  # a pthread_attr_t
    for name, args in (("pthread_attr_init", ()), ("pthread_attr_setstacksize", (uint64(size),)), ("pthread_setattr_default_np", ())):
        if e := _named(name)(uint64(at), *args):
            raise OSError(e, os.strerror(e), name)


def call(name, *args):
    """Call the kernel. Arguments are int, bytes (passed as a pointer) and None (NULL).

    Integers are passed as C ints; a larger one must be a `uint64`.
    """
    r = _syscall(_NUMBERS[name], *args)
    if r == -1:
        e = _ctypes.get_errno()
        raise OSError(e, os.strerror(e), name)
    return r


def attempt(name, *args):
    """Call the kernel and return errno, or 0; raise nothing."""
    return _ctypes.get_errno() if _syscall(_NUMBERS[name], *args) == -1 else 0


def buffer(data):
    """Return (object, address) of a copy of data, valid as long as object exists."""
    return buffer_of(bytearray(data))


def buffer_of(data):
    """Return (object, address) of a bytearray, valid as long as object exists."""
    kind = type("_buffer", (_ctypes.Array,), {"_type_": _char, "_length_": len(data)})
    b = kind.from_buffer(data)
    return b, _ctypes.addressof(b)


def memory(at, size):
    """Return size bytes of memory, which must stay mapped, as a view of bytes."""
    kind = type("_memory", (_ctypes.Array,), {"_type_": _char, "_length_": size})
    return memoryview(kind.from_address(at)).cast("B")
