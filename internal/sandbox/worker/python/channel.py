"""Sends and receives the frames between a worker and its daemon, and makes calls.

A frame is a length, a kind, the number of the execution and a payload; see
docs/worker-protocol.md. Any thread may send and call. There is no reader thread:
a thread that waits for an answer reads frames and dispatches those of other
waiters, so that a call from a single thread needs no thread switch.

After os.fork the child has no channel: its output goes to descriptors 1 and 2,
and its calls fail.
"""

import _thread
import json
import os
import re
import struct
import threading
from _thread import allocate_lock

from . import convert
from .errors import from_answer

_read, _readinto, _write, _close, _exit = os.read, os.readinto, os.write, os.close, os._exit
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=convert.argument).encode
_loads = json.JSONDecoder().decode
_match_id = re.compile(rb'{"id":(\d+)').match
_RLock = threading.RLock
_HEADER = struct.Struct(">IcI")
_SMALL = 1 << 16
ITEM_BYTES = 1 << 20  # longer text is split into several frames
_CALL_BYTES = (16 << 20) - 1024
_DEPTH = 1000  # the daemon decodes at most 10,000 levels


class _Waiter:
    """A thread waiting for one frame; wake is locked until it arrives."""

    __slots__ = ("answer", "wake")

    def __init__(self):
        self.answer = None
        self.wake = allocate_lock()
        self.wake.acquire()

    def notify(self):
        try:
            self.wake.release()
        except RuntimeError:
            pass  # already notified


class Awaited:
    """The calls for which a coroutine waits."""

    def __init__(self):
        self._ids = []
        self._ended = False

    def begin(self, id_):
        """Add a call, or return False if the coroutine no longer waits."""
        self._ids.append(id_)
        return not self._ended

    def end(self):
        self._ended = True
        return self._ids


class Channel:
    def __init__(self, fd=-1):
        self.fd = fd  # -1 before serving and in a forked child
        self.number = 0  # of the current execution; 0 means none
        self._thread = _thread._local()  # number: the execution that the thread belongs to
        self._sending = _RLock()  # re-entrant: a signal handler may print
        self._reading = allocate_lock()
        self._waiting = {0: _Waiter()}  # call id -> waiter; 0 waits for code
        self._last = 0
        self._buffer = b""
        self.readings = tuple  # returns the clock readings not yet sent to the daemon
        self.step = int  # returns the number of the step that the thread runs, or 0
        self.inherited = None  # a context variable that new threads inherit
        self.coroutine = None  # a context variable with the Awaited of the coroutine that makes a call

    # --- begin and end of an execution

    def next_execution(self):
        """Wait for code; return (number, payload)."""
        waiter = self._waiting[0]
        answer = self._await(waiter)
        waiter.answer = ()  # free code and variables, which may be large
        return answer

    def begin(self, number):
        """Allow only this thread, and threads that it starts from now on, to send."""
        self._thread.number = self.number = number

    def end(self, *payload):
        """Send the outcome and fail pending calls. Nothing is sent after it."""
        with self._sending:
            number, self.number = self.number, 0
            for waiter in list(self._waiting.values()):
                if waiter.answer is None:
                    waiter.answer = _ENDED
                    waiter.notify()
            # The next code may arrive, and be read by another thread, immediately.
            self._waiting[0] = _Waiter()
            self._frame(b"D", number, payload)

    def gate(self, lock):
        """Lock a lock whenever this thread sends or receives: an interruption would break a frame."""
        self._thread.gate = lock

    def _gate(self):
        return getattr(self._thread, "gate", _OPEN)

    # --- sending

    def alive(self):
        """Report whether this thread belongs to the current execution."""
        return self.number and self._thread_number() == self.number

    def _thread_number(self):
        return getattr(self._thread, "number", 0)

    def own_threads(self):
        """Make each new thread belong to the execution of the thread that starts it."""
        joinable, new = _thread.start_joinable_thread, _thread.start_new_thread

        def start_joinable_thread(function, handle=None, daemon=True):
            return joinable(self._inheriting(function), handle, daemon)

        def start_new_thread(function, args, kwargs={}, /):
            return new(self._inheriting(function), args, kwargs)

        _thread.start_joinable_thread = threading._start_joinable_thread = start_joinable_thread
        _thread.start_new_thread = _thread.start_new = start_new_thread

    def _inheriting(self, function):
        number, variable = self._thread_number(), self.inherited
        value = variable and variable.get()

        def run(*args, **kwargs):
            self._thread.number = number
            if value is not None:
                variable.set(value)
            return function(*args, **kwargs)

        return run

    def send(self, kind, *payload):
        """Send one frame of the current execution; do nothing if there is none."""
        if self.fd < 0:
            return
        with self._gate(), self._sending:
            if self.alive():
                self._frame(kind, self.number, payload)

    def text(self, kind, texts):
        """Send items of text; in a forked child, write them as lines."""
        if self.fd < 0:
            end = b"\n" if kind == b"O" else b""
            _write_all(1 if kind == b"O" else 2, b"".join([_utf8(t) + end for t in texts]))
            return
        with self._gate(), self._sending:
            if not self.alive():
                return
            for text in texts:
                for piece in _pieces(_utf8(text)):
                    self._frame(kind, self.number, (piece,))

    def _frame(self, kind, number, payload):
        header = _HEADER.pack(sum(map(len, payload)), kind, number)
        if len(payload) == 1 and len(payload[0]) < _SMALL:
            payload = (header + payload[0],)
        else:
            payload = (header, *payload)
        try:
            for part in payload:
                _write_all(self.fd, part)
        except (BrokenPipeError, ConnectionResetError):
            _exit(0)

    # --- calling

    def notify(self, method, args):
        self.send(b"N", _dumps({"method": method, "args": args}).encode())

    def call(self, method, args):
        """Call the daemon and return its answer, or raise the error in it."""
        if self.fd < 0:
            raise RuntimeError(f"{method} works only in the process that runs the code, not in a forked one")
        with self._sending:
            self._last = id_ = self._last + 1
        payload = _dumps({"id": id_, "method": method, "args": args}).encode()
        if len(payload) > _CALL_BYTES:
            raise ValueError(f"the arguments of {method} are {len(payload)} bytes of JSON, at most {_CALL_BYTES} are allowed")
        if payload.count(b"[") + payload.count(b"{") > _DEPTH and _deep(payload):
            raise ValueError(f"the arguments of {method} are nested too deeply: at most {_DEPTH} levels are allowed")
        with self._gate():
            answer = self._request(id_, method, payload)
        if "error" in answer:
            raise from_answer(answer["error"])
        return answer.get("result")

    def _request(self, id_, method, payload):
        waiter = _Waiter()
        try:
            with self._sending:  # so that `end` has either finished or sees this waiter
                if not self.alive():
                    raise RuntimeError(f"{method}: the execution that started this thread has ended")
                awaited = self.coroutine and self.coroutine.get()
                if awaited is not None and not awaited.begin(id_):
                    raise RuntimeError(f"{method}: the coroutine that made this call was cancelled")
                self._waiting[id_] = waiter
                if step := self.step():
                    payload = payload[:-1] + b',"step":%d}' % step
                if readings := self.readings():
                    payload = payload[:-1] + b',"clock":' + _dumps(readings).encode() + b"}"
                self._frame(b"C", self.number, (payload,))
            return self._await(waiter)
        finally:
            self._waiting.pop(id_, None)
            if waiter.answer is None:  # interrupted by an exception
                self._notify_reader(waiter)

    def cancel(self, awaited):
        """Cancel the calls that a coroutine has made in a thread, and all that it would make."""
        with self._sending:
            ids = awaited.end()
            waiting = [id_ for id_ in ids if id_ in self._waiting]
        for id_ in waiting:
            self.notify("cancel", {"id": id_})

    # --- receiving

    def _await(self, waiter):
        """Return the answer for waiter, dispatching the frames of others while waiting."""
        while waiter.answer is None:
            if not self._reading.acquire(False):
                waiter.wake.acquire()
                continue
            try:
                while waiter.answer is None:
                    self._dispatch(*self._receive())
            finally:
                self._reading.release()
                self._notify_reader(waiter)
        return waiter.answer

    def _notify_reader(self, me):
        """Notify another waiter, which becomes the reader."""
        for waiter in list(self._waiting.values()):
            if waiter is not me and waiter.answer is None:
                waiter.notify()
                return

    def _dispatch(self, kind, number, payload):
        if kind == b"X":
            id_, answer = 0, (number, payload)
        elif kind == b"A":
            answer = _answer(payload)
            id_ = answer["id"]
        else:
            return
        waiter = self._waiting.get(id_)
        if waiter is not None:
            waiter.answer = answer
            waiter.notify()

    def _receive(self):
        data = self._buffer or self._more()
        while len(data) < _HEADER.size:
            data += self._more()
        length, kind, number = _HEADER.unpack_from(data)
        end = _HEADER.size + length
        if len(data) < end:
            self._buffer = b""
            return kind, number, self._rest(data[_HEADER.size :], length)
        self._buffer = data[end:]
        return kind, number, data[_HEADER.size : end]

    def _rest(self, data, size):
        """Return a payload of which data is the beginning, without a copy of the rest."""
        whole = bytearray(size)
        at = len(data)
        whole[:at] = data
        with memoryview(whole) as view:
            while at < size:
                with view[at:] as rest:
                    n = _readinto(self.fd, rest)
                if not n:
                    _exit(0)  # the daemon has closed the channel
                at += n
        return whole

    def _more(self):
        data = _read(self.fd, _SMALL)
        if not data:
            _exit(0)  # the daemon has closed the channel
        return data

    def forked(self):
        """Close the channel in the child of a fork; the parent keeps it."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            self._sending = _RLock()
            _close(fd)


def frame(kind, number, payload):
    return _HEADER.pack(len(payload), kind, number) + payload


class _Open:
    """No lock: contextlib.nullcontext, without an import that the first execution does not need."""

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


_OPEN = _Open()
_ENDED = {"error": {"type": "RuntimeError", "message": "the execution that made this call has ended"}}


def _integer(digits):
    try:
        return int(digits)
    except ValueError:  # more digits than int() accepts
        return float(digits)


_loads_long = json.JSONDecoder(parse_int=_integer).decode


def _answer(payload):
    """Decode an answer. Never raise: the reading thread may not be the calling one."""
    try:
        return _loads(payload.decode())
    except (ValueError, RecursionError, MemoryError):
        pass
    try:
        return _loads_long(payload.decode())
    except (ValueError, RecursionError, MemoryError) as e:
        kind = "MemoryError" if isinstance(e, MemoryError) else "ValueError"
        return {"id": int(_match_id(payload)[1]), "error": {"type": kind, "message": f"the answer cannot be read: {e}"}}


_strings = re.compile(rb'"(?:[^"\\]|\\.)*"').sub
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(c for c in range(256) if c not in b"[]{}")


def _deep(text):
    """Report whether JSON is nested more than _DEPTH levels deep."""
    text = _strings(b"", text).translate(_BRACKETS, _OTHERS)
    for _ in range(_DEPTH):
        text = text.replace(b"[]", b"")
    return bool(text)


def _write_all(fd, data):
    n = _write(fd, data)
    if n < len(data):
        data = memoryview(data)
        while n < len(data):
            n += _write(fd, data[n : n + ITEM_BYTES])


def _utf8(text):
    return text.encode("utf-8", "backslashreplace")


def _pieces(data):
    """Split text that is too long for one item: after a line end in the second half if there is one, never inside a character."""
    while len(data) > ITEM_BYTES:
        at = data.rfind(b"\n", ITEM_BYTES // 2, ITEM_BYTES) + 1
        if at:
            yield data[: at - 1]
        else:
            at = ITEM_BYTES
            while data[at] & 0xC0 == 0x80:
                at -= 1
            yield data[:at]
        data = data[at:]
    yield data
