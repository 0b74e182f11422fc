"""A connection to a server that this process starts, over its standard input and output."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from . import _wire
from ._errors import BinaryNotFound, SandpiperError, ServerUnavailable

_log = logging.getLogger("sandpiper")


def find_binary(path: str | os.PathLike[str] | None) -> str:
    """Return the program to start: path, $SANDPIPER, that of this package, or the one in $PATH."""
    named = path if path is not None else os.environ.get("SANDPIPER")
    if named:
        found = shutil.which(os.fspath(named))
        if not found:
            raise BinaryNotFound(f"there is no program {os.fspath(named)!r}", "name the program sandpiper with binary= or SANDPIPER")
        return found
    for candidate in (str(Path(__file__).parent / "bin" / "sandpiper"), "sandpiper"):
        if found := shutil.which(candidate):
            return found
    raise BinaryNotFound("the program sandpiper is not in PATH", "install it, or name it with binary= or SANDPIPER")


class Stdio:
    """A running server. It ends when the connection is closed, or this process ends."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        try:
            # In a session of its own, the interrupt of a terminal does not end it before its client.
            self._process = subprocess.Popen(
                argv, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as e:
            raise ServerUnavailable(f"{argv[0]} cannot be started: {e.strerror}") from e
        self._lock = threading.Lock()  # of the next two
        self._pending: dict[int, Future[_wire.Message]] | None = {}  # None once the server has ended
        self._number = 0
        self._writing = threading.Lock()
        self._stderr: deque[str] = deque(maxlen=20)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin = self._process.stdin
        me = weakref.ref(self)
        errors = threading.Thread(target=_read_errors, args=(self._process.stderr, self._stderr), daemon=True)
        reader = threading.Thread(target=_read, args=(me, self._process, self._process.stdout, errors), daemon=True)
        errors.start()
        reader.start()
        self._end = weakref.finalize(self, _end, self._process)

    def submit(self, method: str, params: Mapping[str, Any]) -> Future[_wire.Message]:
        future: Future[_wire.Message] = Future()
        with self._lock:
            self._number += 1
            number = self._number
            ended = self._pending is None
            if self._pending is not None:
                self._pending[number] = future
        if ended:
            future.set_exception(self._ended())
            return future
        future.add_done_callback(lambda f: self._cancel(number) if f.cancelled() else None)
        try:
            self._write(_wire.request(number, method, params))
        except OSError:
            pass  # the reader reports that the server has ended, with the reason
        except BaseException as e:  # such as arguments that are no JSON
            self._take(number)
            _settle(future, e if isinstance(e, Exception) else ServerUnavailable(f"the request was not sent: {e}"))
        return future

    def close(self) -> None:
        self._end()

    def leave(self) -> None:
        self._end.detach()
        self._process.returncode = 0  # it is no child of this process
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in (self._process.stdin, self._process.stdout, self._process.stderr):
            if file is not None and not file.closed:
                os.dup2(nothing, file.fileno(), inheritable=False)  # the server must see the end of its parent
        os.close(nothing)

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, allow_nan=False).encode() + b"\n"
        with self._writing:
            try:
                self._stdin.write(line)
                self._stdin.flush()
            except ValueError as e:  # closed
                raise OSError(str(e)) from e

    def _cancel(self, number: int) -> None:
        if self._take(number) is None:
            return
        with suppress(OSError):
            self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number, "reason": "the client gave up"}})

    def _take(self, number: int) -> Future[_wire.Message] | None:
        with self._lock:
            return self._pending.pop(number, None) if self._pending is not None else None

    def _receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            _log.warning("the server wrote a line that is not JSON: %.200r", line)
            return
        if not isinstance(message, dict) or "method" in message:
            return  # a notification
        future = self._take(message.get("id", 0))
        if future is None:
            return
        try:
            value = _wire.result(message)
        except SandpiperError as e:
            _settle(future, e)
        else:
            _settle(future, None, value)

    def _fail_all(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, None
        for future in (pending or {}).values():
            _settle(future, self._ended())

    def _ended(self) -> ServerUnavailable:
        code = self._process.poll()
        how = "was closed" if not self._end.alive else f"has ended with exit code {code}" if code is None or code >= 0 else f"was ended by signal {-code}"
        return ServerUnavailable(f"the server {how}", "\n".join(self._stderr))


def _settle(future: Future[_wire.Message], error: Exception | None, value: _wire.Message | None = None) -> None:
    with suppress(InvalidStateError):  # it was cancelled
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value or {})


def _read(me: weakref.ref[Stdio], process: subprocess.Popen[bytes], stdout: IO[bytes], errors: threading.Thread) -> None:
    """Pass lines on, without keeping the connection alive between them."""
    with stdout, suppress(OSError, ValueError):
        for line in stdout:
            if connection := me():
                connection._receive(line)
            del connection
    process.wait()
    errors.join(1)  # a program that the server started may have it open
    if connection := me():
        connection._fail_all()


def _read_errors(stderr: IO[bytes], last: deque[str]) -> None:
    with stderr, suppress(OSError, ValueError):
        for line in stderr:
            text = line.decode(errors="replace").rstrip()
            last.append(text)
            _log.debug("%s", text)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server: its input ends, and it has 10 seconds to save its data."""
    with suppress(OSError):
        if process.stdin:
            process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
