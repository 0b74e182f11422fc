"""Time limits of functions: the daemon measures the time, without that in which the execution waits.

The function runs in a thread of its own while the caller waits. When its time is over, the
daemon refuses its calls, the thread is interrupted, and the caller continues. The limit is an
entry of the record like a step: that it has expired is recorded, so that a replay does not
run the function again.
"""

import _thread
import contextvars
import datetime
from _thread import allocate_lock, get_ident

from . import kernel
from .errors import note

_NAME = "time_limit"
_GRACE = 0.2  # seconds in which an interrupted function may end


class _Interrupted(BaseException):
    """Ends a function whose time is over. It is no Exception, which code may catch."""


class Limits:
    def __init__(self, channel, steps, recorder):
        self._channel, self._steps, self._recorder = channel, steps, recorder

    def time_limit(self, seconds, fn, *args, **kwargs):
        """Return fn(*args, **kwargs), or raise TimeoutError if it takes longer than some seconds.

        The time in which the execution waits for a person, a time or a signal does not count. A
        tool call in progress is cancelled, and the outcome of the error is "unknown" if that may have
        taken effect.
        """
        if isinstance(seconds, datetime.timedelta):
            seconds = seconds.total_seconds()
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e9:
            raise ValueError(f"time_limit(seconds, fn, *args): a number of seconds above 0 is needed, got {seconds!r:.100}")
        if not callable(fn):
            raise TypeError(f"time_limit(seconds, fn, *args): fn must be a function, got {type(fn).__name__}: write time_limit(5, f, x), not time_limit(5, f(x))")
        parent = self._steps._current()
        key = {"name": _NAME, "n": parent.next(_NAME), "parent": parent.number}
        before = self._recorder().mark()
        answer = self._channel.call("limit", {**key, "seconds": seconds})
        name = f"{key['n']} {_NAME}".encode()
        if answer.get("expired"):
            self._recorder().advance(before, name, answer["drew"])
            unknown = answer.get("unknown")
        else:
            work = _Work(self._channel, fn, args, kwargs)
            state = self._run(number := answer["number"], work)
            if not state["expired"]:
                return work.result()
            unknown = state.get("unknown")
            if answer.get("recorded"):
                drew = self._recorder().advance(before, name)
                self._channel.call("step_done", {"number": number, "value": {"unknown": unknown}, "drew": drew})
        error = TimeoutError(f"it took longer than {seconds:g} s")
        if unknown:
            error = TimeoutError(f"{error}. It is unknown whether {', '.join(unknown)} took effect: check that before you call it again")
            error.outcome = "unknown"
            note(error)
        raise error

    def _run(self, number, work):
        """Run the function; return how it ended."""
        with self._steps.scope(number):
            work.start(number)
        try:
            state = self._channel.call("limit_wait", {"number": number})
        except BaseException:
            work.interrupt()
            raise
        if state["expired"]:
            work.interrupt()
        else:
            work.ended.acquire()
        return state


class _Work:
    """A function that runs in a thread of its own."""

    def __init__(self, channel, fn, args, kwargs):
        self._channel, self._fn, self._args, self._kwargs = channel, fn, args, kwargs
        self._value = self._error = self._thread = None
        self._gate = allocate_lock()  # locked while the thread sends or receives, or is interrupted
        self.ended = allocate_lock()  # locked until the function has ended
        self.ended.acquire()

    def start(self, number):
        context = contextvars.copy_context()
        _thread.start_new_thread(context.run, (self._run, number))

    def _run(self, number):
        self._channel.gate(self._gate)
        self._thread = get_ident()
        try:
            try:
                self._value = self._fn(*self._args, **self._kwargs)
            except _Interrupted:
                return
            except BaseException as e:
                self._error = e
            self._channel.call("limit_end", {"number": number})
        except BaseException:
            pass  # the time is over
        finally:
            self.ended.release()

    def result(self):
        if self._error is not None:
            raise self._error
        return self._value

    def interrupt(self):
        """Raise an exception in the thread: it ends at its next instruction of Python."""
        if self._thread is None or not self._gate.acquire(timeout=_GRACE):
            return  # its calls are refused
        if self.ended.locked():
            kernel.raise_in(self._thread, _Interrupted)
        self._gate.release()
        self.ended.acquire(timeout=_GRACE)
