"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, TypeVar

from . import _operations as ops
from . import _run_operations as runs
from . import _wire
from ._areas import Background, Session
from ._base import Client, read
from ._errors import RequestTimeout, SandpiperError
from ._method import Sync

T = TypeVar("T")


class Sandpiper(Client[Sync]):
    """A client. Its methods wait for the answer and may be called by several threads.

    >>> with Sandpiper() as sandpiper:
    ...     sandpiper.execute("sum(range(10))").result
    45
    """

    def __enter__(self) -> Sandpiper:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def open(self) -> None:
        """Start the server, or connect to it, and wait until it answers. Otherwise the first request does."""
        answer = _wait(self._connect().submit("server/discover", {}), self._timeout, lambda: RequestTimeout("the server did not answer"))
        _wire.check_started(answer)

    def close(self) -> None:
        """End a server that was started. Requests in flight fail."""
        self._close()

    def session(self, id: str) -> Session:
        """Return a session, whose executions share variables. It needs no closing."""
        return Session(self._do, id)

    def dispatch(
        self,
        code: str | None = None,
        *,
        task: str | None = None,
        context_vars: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        on_restart: str | None = None,
    ) -> Background:
        """Start code, or a task in words, that outlives this client, and return its handle.

        After a restart of the server, on_restart="resume" continues it without repeating a tool
        call, and "report" ends it as interrupted. timeout_seconds counts its running time. The
        profile full has the tool.
        """
        return Background(self._do, self._do(runs.dispatch(code, task, context_vars, timeout_seconds, on_restart)))

    def background(self, execution_id: str) -> Background:
        """Return the handle of a background execution with that id, which is not checked."""
        return Background(self._do, execution_id)

    def _do(self, operation: ops.Operation[T]) -> T:
        try:
            step = next(operation)
            while True:
                try:
                    answer = self._step(step)
                except SandpiperError as e:
                    step = operation.throw(e)
                else:
                    step = operation.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def _step(self, step: ops.Step) -> ops.Answer:
        if isinstance(step, ops.Pause):
            time.sleep(step.seconds)
            return {}
        call = step
        return read(call, _wait(self._submit(call), self._limit(call), lambda: self._late(call)))


def _wait(future: Future[_wire.Message], timeout: float | None, late: Any) -> _wire.Message:
    try:
        return future.result(timeout)
    except (FutureTimeout, CancelledError) as e:
        if future.done() and not future.cancelled():
            raise  # RequestTimeout is a TimeoutError too
        future.cancel()
        raise late() from e
    except BaseException:  # such as KeyboardInterrupt
        future.cancel()
        raise
