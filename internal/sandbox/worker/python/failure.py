"""Describes an exception to a reader who sees only the user's code.

The module `stack`, which formats tracebacks, is imported on first use: its imports take
longer than the first execution of a process.
"""

import errno
import mmap
import os
import sys
from collections import deque

from .errors import Refused

_ERROR_CHARS = 8_000
_LIBRARY_FRAMES = 4  # shown of a run of consecutive library frames

_ours = (os.path.dirname(__file__) + "/", "<frozen importlib")
_generated = "/dev/null/"
_LIBRARY = os.path.dirname(os.__file__) + "/"
LIBRARIES = (_LIBRARY, "/packages/")

_LIMITS = {
    errno.ENOMEM: "memory",
    errno.EMFILE: "open_files",
    errno.ENFILE: "open_files",
    errno.EFBIG: "file_size",
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
}
_FORKS = frozenset({"fork", "forkpty", "fork_exec", "_fork_exec", "posix_spawn", "posix_spawnp"})
_THREAD = "can't start new thread"
_STACK = 2 << 20  # of a thread; see zygote.py


def describe(exc):
    """Return the fields of D for an exception that reached the top."""
    if isinstance(exc, Refused):
        return {"status": "refused", "error": _clip(message(exc), _ERROR_CHARS), "error_type": type_name(exc)}
    return {
        "status": "raised",
        "error": _clip(message(exc), _ERROR_CHARS),
        "error_type": type_name(exc),
        "traceback": stack_text(exc),
        "limit": limit(exc),
    }


def leave_out(folder):
    """Omit the generated code in folder from tracebacks, except the files that its package lists as hand-written."""
    global _ours, _generated
    _generated = folder + "/"
    _ours += (_generated,)


def _is_handwritten(name):
    return name.startswith(_generated) and name[len(_generated) :] in getattr(sys.modules.get("servers"), "_handwritten", ())


def type_name(exc):
    return type.__dict__["__name__"].__get__(type(exc))[:200]


def message(exc):
    """Return a one-sentence description of exc."""
    if isinstance(exc, SystemExit):
        code = exc.code
        return code if isinstance(code, str) else f"the code exited with status {_text(code)}"
    text = _text(exc)
    if isinstance(exc, ModuleNotFoundError):
        if exc.name in sys.stdlib_module_names:
            return text + ", a module of the standard library that is not installed"
    elif isinstance(exc, (NameError, AttributeError, ImportError)):
        return _with_suggestion(exc, text) or type_name(exc)
    if isinstance(exc, MemoryError):
        return "the code ran out of memory" + (f": {text}" if text else "")
    if isinstance(exc, KeyboardInterrupt):
        return text or "the code was interrupted"
    return text or type_name(exc)


def _with_suggestion(exc, text):
    """Return text with the similar name that a traceback suggests, if there is one."""
    try:
        from . import stack

        suggested = stack.message(exc)
    except MemoryError:
        raise
    except Exception:
        return text
    return suggested if suggested.startswith(text) else text


def limit(exc):
    """Return the name of the limit that caused exc, or ""."""
    for _ in range(20):
        if exc is None:
            break
        if found := _limit(exc):
            return found
        exc = exc.__cause__
    return ""


def _limit(exc):
    if isinstance(exc, MemoryError) or type_name(exc) == "OutOfMemoryException":  # the latter is DuckDB's
        return "memory"
    if isinstance(exc, BlockingIOError):
        return "processes" if exc.errno == errno.EAGAIN and _was_forking(exc.__traceback__) else ""
    if isinstance(exc, OSError):
        return _LIMITS.get(exc.errno, "")
    if isinstance(exc, RuntimeError) and _text(exc).startswith(_THREAD):
        return "processes" if _has_memory(_STACK) else "memory"
    return ""


def _has_memory(size):
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return False
    return True


def _was_forking(tb):
    """Report whether the last frame forks. EAGAIN has other causes; only there it means the process limit."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and not _FORKS.isdisjoint(tb.tb_frame.f_code.co_names)


def stack_text(exc):
    """Return the traceback of exc; only its last line if no memory or descriptor is left for more."""
    try:
        from . import stack

        return stack.text(exc, visible_frames, LIBRARIES)
    except MemoryError:
        raise
    except Exception:
        return f"{type_name(exc)}: {_clip(message(exc), _ERROR_CHARS)}\n"


def clear_frames(tb):
    """Forget the local variables of all frames of tb, as traceback.clear_frames does."""
    while tb is not None:
        try:
            tb.tb_frame.clear()
        except RuntimeError:  # the frame is running
            pass
        tb = tb.tb_next


def visible_frames(tb):
    """Yield the traceback entries from the first user frame on, without the runtime and long library runs."""
    while tb is not None and _place(tb) != "user":
        tb = tb.tb_next
    run, from_runtime = deque(maxlen=_LIBRARY_FRAMES), False
    while tb is not None:
        place = _place(tb)
        if place == "library" and not from_runtime:  # calls of the runtime are irrelevant to the user
            run.append(tb)
        elif place == "runtime":
            from_runtime = True
        elif place == "user":
            from_runtime = False
            yield from run
            run.clear()
            yield tb
        tb = tb.tb_next
    yield from run


def _place(tb):
    name = tb.tb_frame.f_code.co_filename
    if name.startswith(_ours):
        return "user" if _is_handwritten(name) else "runtime"
    if name.startswith((*LIBRARIES, "<frozen ")):
        return "library"
    return "user"


def _text(value):
    try:
        return str.__str__(str(value))
    except BaseException:
        return f"<{type_name(value)} that cannot be printed>"


def _clip(text, n):
    return text if len(text) <= n else f"{text[:n]}… ({len(text)} characters)"
