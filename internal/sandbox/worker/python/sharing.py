"""Arranges the zygote's memory so that a worker copies few of the pages that both share.

A worker copies each page that it writes to. CPython writes to an object to count
references, to code to specialize it and to free memory to allocate. None of the
memory used here is ever freed.
"""

import gc
import sys
import types

from . import kernel

# The word with the reference count and flags of an immortal object (PEP 683). Without
# the flag, instructions that take over a reference would still count it.
_IMMORTAL = 1 << 48 | 3 << 30
_IS_IMMORTAL = 1 << 31
_POOL = 1 << 14  # bytes of a pool of pymalloc, which starts with the number of its blocks in use
_NEW = 8  # a pool with at most so many is new, or almost
_SMALL = range(16, 513, 16)  # sizes of blocks of pymalloc; malloc provides larger ones
_HEAP = (*(1 << n for n in range(16, 10, -1)), *range(1024, 16, -16))  # sizes of the chunks of malloc that fill holes
_HEAP_END = 1 << 18  # malloc's heap can grow so much at once
_MOST = 20_000  # holes to fill, if the heap is not where it is expected
_TOOL = 5  # an unused tool id of sys.monitoring


def make_immortal(tracked):
    """Make objects and what they refer to immortal, some with each step.

    Immortal objects have no reference counting, so a worker that uses one does not
    write to it.
    """
    at = kernel.uint64.from_address
    while tracked:
        some = tracked[-500:]
        del tracked[-500:]
        reached = gc.get_referents(*some)
        for code in [o for o in reached if type(o) is types.CodeType]:
            reached += code.co_consts, code.co_names, code.co_filename, code.co_name, code.co_qualname
            reached += code.co_consts + code.co_names
        for address in {id(o) for o in some + reached}:
            word = at(address)
            if not word.value & _IS_IMMORTAL:
                word.value = word.value & ~0xFFFFFFFF | _IMMORTAL
        yield


def fill():
    """Allocate the free blocks between objects, so that a worker allocates from few new pages instead of many shared ones."""
    count = kernel.uint32.from_address
    for size in _SMALL:
        while count(kernel.object_malloc(size) & -_POOL).value > _NEW:
            pass
        yield
    end, left = kernel.sbrk(0) - _HEAP_END, _MOST
    for size in _HEAP:
        while left and kernel.malloc(size) < end:
            left -= 1
        yield


def gather(run, more):
    """Replace the code that run() executes, and that of the functions more, by copies that are close together."""
    found = {id(f.__code__): f.__code__ for f in more}
    monitoring = sys.monitoring
    event = monitoring.events.PY_START
    monitoring.use_tool_id(_TOOL, __name__)
    monitoring.register_callback(_TOOL, event, lambda code, _: found.setdefault(id(code), code))
    monitoring.set_events(_TOOL, event)
    try:
        run()
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)
    for f in gc.get_objects():
        if type(f) is types.FunctionType and id(f.__code__) in found:
            f.__code__ = f.__code__.replace()
