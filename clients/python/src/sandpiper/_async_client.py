"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from . import _operations as ops
from . import _run_operations as runs
from . import _wire
from ._areas import AsyncBackground, AsyncSession
from ._base import Client, read
from ._errors import RequestTimeout, SandpiperError
from ._method import Async

T = TypeVar("T")


class AsyncSandpiper(Client[Async]):
    """A client for asyncio, with the methods of Sandpiper. Cancelling a task cancels its request."""

    async def __aenter__(self) -> AsyncSandpiper:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def open(self) -> None:
        """Start the server, or connect to it, and wait until it answers."""
        answer = await _await(self._connect().submit("server/discover", {}), self._timeout, lambda: RequestTimeout("the server did not answer"))
        _wire.check_started(answer)

    async def close(self) -> None:
        """End a server that was started. Requests in flight fail."""
        await asyncio.to_thread(self._close)

    def session(self, id: str) -> AsyncSession:
        """Return a session, whose executions share variables."""
        return AsyncSession(self._do, id)

    async def dispatch(
        self,
        code: str | None = None,
        *,
        task: str | None = None,
        context_vars: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        on_restart: str | None = None,
    ) -> AsyncBackground:
        """Start code, or a task in words, that outlives this client; see Sandpiper.dispatch."""
        return AsyncBackground(self._do, await self._do(runs.dispatch(code, task, context_vars, timeout_seconds, on_restart)))

    def background(self, execution_id: str) -> AsyncBackground:
        """Return the handle of a background execution with that id, which is not checked."""
        return AsyncBackground(self._do, execution_id)

    async def _do(self, operation: ops.Operation[T]) -> T:
        try:
            step = next(operation)
            while True:
                try:
                    answer = await self._step(step)
                except SandpiperError as e:
                    step = operation.throw(e)
                else:
                    step = operation.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def _step(self, step: ops.Step) -> ops.Answer:
        if isinstance(step, ops.Pause):
            await asyncio.sleep(step.seconds)
            return {}
        call = step
        return read(call, await _await(self._submit(call), self._limit(call), lambda: self._late(call)))


async def _await(future: Future[_wire.Message], timeout: float | None, late: Any) -> _wire.Message:
    waiting = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait({waiting}, timeout=timeout)
        if done:
            return waiting.result()
    except BaseException:  # such as CancelledError
        future.cancel()
        raise
    future.cancel()
    raise late()
