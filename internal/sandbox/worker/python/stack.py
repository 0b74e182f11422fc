"""Formats the traceback of an exception for a reader who sees only the user's code.

The traceback starts at the first user frame, omits frames of the runtime, shows
standard library files by their path in the library, and is bounded; omissions are
marked.
"""

from collections import deque
from itertools import islice

from . import later

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

_CHARS = 8_000
_FRAMES = 40  # shown from each end of a stack


def text(exc, visible, libraries):
    """Return the traceback of exc: the entries that visible yields, without the libraries' directories in their names."""
    shown = traceback.TracebackException(type(exc), exc, exc.__traceback__, limit=0, compact=True)
    _fill(shown, exc, lambda tb: _frames(visible(tb), libraries))
    return _cut_middle("".join(shown.format()), _CHARS)


def message(exc):
    """Return the message of exc, with the similar name that a traceback suggests."""
    return str(traceback.TracebackException(type(exc), exc, exc.__traceback__, limit=0))


class _Stack(traceback.StackSummary):
    """A stack in which an entry at line 0 marks omitted calls."""

    def format_frame_summary(self, frame, **options):
        if frame.lineno == 0:
            return f"  {frame.filename}\n"
        return super().format_frame_summary(frame, **options)


def _fill(shown, exc, frames):
    """Set the visible stack of each exception to show."""
    todo = [(shown, exc)]
    while todo:
        shown, exc = todo.pop()
        shown.stack = _Stack(frames(exc.__traceback__))
        if shown.__cause__ is not None:
            todo.append((shown.__cause__, exc.__cause__))
        if shown.__context__ is not None:
            todo.append((shown.__context__, exc.__context__))
        if shown.exceptions:
            todo += zip(shown.exceptions, exc.exceptions)


def _frames(visible, libraries):
    """Return the first and the last entries."""
    first, last, n = [], deque(maxlen=_FRAMES), 0
    for frame in visible:
        n += 1
        if n <= _FRAMES:
            first.append(frame)
        else:
            last.append(frame)
    frames = [_summary(t, libraries) for t in first]
    if n > 2 * _FRAMES:
        frames.append(traceback.FrameSummary(f"… {n - 2 * _FRAMES} more calls …", 0, "", line=""))
    return frames + [_summary(t, libraries) for t in last]


def _summary(tb, libraries):
    code = tb.tb_frame.f_code
    line, end_line, column, end_column = next(islice(code.co_positions(), tb.tb_lasti // 2, None), (None,) * 4)
    name = code.co_filename
    summary = traceback.FrameSummary(
        name, tb.tb_lineno, code.co_name, lookup_line=False,
        end_lineno=end_line, colno=column, end_colno=end_column,
    )
    summary.line  # read and cached now, under the name that linecache knows
    for library in libraries:
        if name.startswith(library):
            summary.filename = name[len(library) :]
    return summary


def _cut_middle(text, n):
    if len(text) <= n:
        return text
    half = n // 2
    head = text[:half].rpartition("\n")[0]
    tail = text[-half:].partition("\n")[2]
    left = len(text) - len(head) - len(tail)
    return f"{head}\n  … {left} characters left out …\n{tail}"
