"""Moves the interpreter's hot code to huge pages.

A worker inherits a huge page with a single entry of its page table. Of a file's
pages it inherits none, and has a page fault at the first use of every 64 KiB. The
processor also needs fewer entries to translate addresses.
"""

import os
import struct

from .kernel import address, call, getauxval, memory, uint64

_HUGE = 2 << 20
_AT_PHDR, _AT_PHNUM, _PT_LOAD, _PT_PHDR, _PF_X = 3, 5, 1, 6, 1
_READ, _WRITE, _EXEC = 1, 2, 4
_PRIVATE_ANONYMOUS, _MOVE_FIXED, _MADV_COLLAPSE = 0x22, 3, 25


def move_code():
    """Replace the code by an equal copy; change nothing where the kernel has no huge pages.

    The copy is never writable and executable at once. One system call, in libc, puts it
    in the place of the original.
    """
    if os.uname().machine != "x86_64":
        return
    start, end = _hot_code()
    start, end = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
    if end > start:
        try:
            _replace(start, end - start)
        except OSError:
            pass  # Linux before 6.1, or no memory in pieces of that size


def _hot_code():
    """Return the first and last address of the segment with the evaluation loop, which has most of the code in use."""
    headers, count = getauxval(_AT_PHDR), getauxval(_AT_PHNUM)
    segments = list(struct.iter_unpack("IIQQQQQQ", memory(headers, 56 * count)))
    moved_by = next((headers - s[3] for s in segments if s[0] == _PT_PHDR), 0)
    loop = address("_PyEval_EvalFrameDefault")
    for kind, flags, _, virtual, _, _, size, _ in segments:
        start = virtual + moved_by
        if kind == _PT_LOAD and flags & _PF_X and start <= loop < start + size:
            return start, start + size
    return 0, 0


def _replace(start, size):
    reserved = call("mmap", None, uint64(size + _HUGE), _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    copy = -(-reserved // _HUGE) * _HUGE
    for begin, excess in (reserved, copy - reserved), (copy + size, reserved + _HUGE - copy):
        if excess:
            call("munmap", uint64(begin), uint64(excess))
    try:
        memory(copy, size)[:] = memory(start, size)
        call("madvise", uint64(copy), uint64(size), _MADV_COLLAPSE)
        call("mprotect", uint64(copy), uint64(size), _READ | _EXEC)
        call("mremap", uint64(copy), uint64(size), uint64(size), _MOVE_FIXED, uint64(start))
    except OSError:
        call("munmap", uint64(copy), uint64(size))
        raise
