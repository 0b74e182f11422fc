"""Describes an exception to a reader who sees only the user's code.

The traceback starts at the first user frame, omits frames of the runtime, shows
standard library files by their path in the library, and is bounded; omissions are
marked.
"""

import errno
import mmap
import os
import sys
from collections import deque
from itertools import islice

from . import later
from .restrict import Refused


class _Plain:
    """The section for tracebacks of a theme without colors."""

    def __getattr__(self, name):
        return ""


class _Theme:
    traceback = _Plain()

    def __getattr__(self, name):
        dir(_colorize)
        return getattr(_colorize.get_theme(force_no_color=True), name)


def _get_theme(*, force_no_color=False, **options):
    """Replace _colorize.get_theme until something else of that module is used, which takes as long to import as all others here."""
    if force_no_color:
        return _Theme()
    dir(_colorize)  # executes the module
    return _colorize.get_theme(**options)


_colorize = later.defer("_colorize", get_theme=_get_theme)
import traceback  # noqa: E402 - it imports _colorize

clear_frames = traceback.clear_frames
_ERROR_CHARS = 8_000
_TRACEBACK_CHARS = 8_000
_FRAMES = 40  # shown from each end of a stack
_LIBRARY_FRAMES = 4  # shown of a run of consecutive library frames

_ours = (os.path.dirname(__file__) + "/", "<frozen importlib")
_generated = "/dev/null/"
_LIBRARY = os.path.dirname(os.__file__) + "/"
_LIBRARIES = (_LIBRARY, "/packages/")

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
    if isinstance(exc, (NameError, AttributeError)):
        return _with_suggestion(exc, text) or type_name(exc)
    if isinstance(exc, ModuleNotFoundError) and exc.name in sys.stdlib_module_names:
        return text + ", a module of the standard library that is not installed"
    if isinstance(exc, MemoryError):
        return "the code ran out of memory" + (f": {text}" if text else "")
    if isinstance(exc, KeyboardInterrupt):
        return text or "the code was interrupted"
    return text or type_name(exc)


def _with_suggestion(exc, text):
    """Return text with the similar name that a traceback suggests, if there is one."""
    try:
        suggested = str(traceback.TracebackException(type(exc), exc, exc.__traceback__, limit=0))
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
    try:
        shown = traceback.TracebackException(type(exc), exc, exc.__traceback__, limit=0, compact=True)
        _fill(shown, exc)
        return _cut_middle("".join(shown.format()), _TRACEBACK_CHARS)
    except MemoryError:
        raise
    except Exception:
        return f"{type_name(exc)}: {_clip(message(exc), _ERROR_CHARS)}\n"


class _Stack(traceback.StackSummary):
    """A stack in which an entry at line 0 marks omitted calls."""

    def format_frame_summary(self, frame, **options):
        if frame.lineno == 0:
            return f"  {frame.filename}\n"
        return super().format_frame_summary(frame, **options)


def _fill(shown, exc):
    """Set the visible stack of each exception to show."""
    todo = [(shown, exc)]
    while todo:
        shown, exc = todo.pop()
        shown.stack = _Stack(_frames(exc.__traceback__))
        if shown.__cause__ is not None:
            todo.append((shown.__cause__, exc.__cause__))
        if shown.__context__ is not None:
            todo.append((shown.__context__, exc.__context__))
        if shown.exceptions:
            todo += zip(shown.exceptions, exc.exceptions)


def _frames(tb):
    """Return the first and the last visible frames of tb."""
    first, last, n = [], deque(maxlen=_FRAMES), 0
    for frame in _visible(tb):
        n += 1
        if n <= _FRAMES:
            first.append(frame)
        else:
            last.append(frame)
    frames = [_summary(t) for t in first]
    if n > 2 * _FRAMES:
        frames.append(traceback.FrameSummary(f"… {n - 2 * _FRAMES} more calls …", 0, "", line=""))
    return frames + [_summary(t) for t in last]


def _visible(tb):
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
    if name.startswith((*_LIBRARIES, "<frozen ")):
        return "library"
    return "user"


def _summary(tb):
    code = tb.tb_frame.f_code
    line, end_line, column, end_column = next(islice(code.co_positions(), tb.tb_lasti // 2, None), (None,) * 4)
    name = code.co_filename
    summary = traceback.FrameSummary(
        name, tb.tb_lineno, code.co_name, lookup_line=False,
        end_lineno=end_line, colno=column, end_colno=end_column,
    )
    summary.line  # read and cached now, under the name that linecache knows
    for library in _LIBRARIES:
        if name.startswith(library):
            summary.filename = name[len(library) :]
    return summary


def _text(value):
    try:
        return str.__str__(str(value))
    except BaseException:
        return f"<{type_name(value)} that cannot be printed>"


def _clip(text, n):
    return text if len(text) <= n else f"{text[:n]}… ({len(text)} characters)"


def _cut_middle(text, n):
    if len(text) <= n:
        return text
    half = n // 2
    head = text[:half].rpartition("\n")[0]
    tail = text[-half:].partition("\n")[2]
    left = len(text) - len(head) - len(tail)
    return f"{head}\n  … {left} characters left out …\n{tail}"
