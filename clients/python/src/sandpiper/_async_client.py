"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from . import _operations as ops
from . import _wire
from ._areas import AsyncFiles, AsyncSkills, AsyncStates, AsyncTools
from ._background import AsyncBackground
from ._base import Client, read
from ._errors import RequestTimeout, SandpiperError
from ._results import BackgroundStatus, Result, TaskResult

T = TypeVar("T")


class AsyncSandpiper(Client):
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

    async def execute(
        self,
        code: str,
        *,
        context_vars: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        memory_mb: int | None = None,
        session_id: str | None = None,
        dry_run: bool = False,
        task_description: str | None = None,
        check: bool = True,
    ) -> Result:
        """Run code in the sandbox; see Sandpiper.execute."""
        return await self._do(ops.execute(code, context_vars, timeout_seconds, memory_mb, session_id, dry_run, task_description, check))

    async def resume(self, execution_id: str, answer: Any = ops.UNANSWERED, *, check: bool = True) -> Result:
        """Continue an execution; see Sandpiper.resume."""
        return await self._do(ops.resume(execution_id, answer, check))

    async def waiting(self, session_id: str | None = None) -> tuple[Mapping[str, Any], ...]:
        """Return the executions that can be resumed."""
        return await self._do(ops.waiting(session_id))

    def session(self, id: str) -> AsyncSession:
        """Return a session, whose executions share variables."""
        return AsyncSession(self, id)

    async def task(self, description: str, *, check: bool = True, **options: Any) -> TaskResult:
        """Do a task in words; see Sandpiper.task."""
        return await self._do(ops.task(description, options, check))

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
        return AsyncBackground(self._do, await self._do(ops.dispatch(code, task, context_vars, timeout_seconds, on_restart)))

    def background(self, execution_id: str) -> AsyncBackground:
        """Return the handle of a background execution with that id, which is not checked."""
        return AsyncBackground(self._do, execution_id)

    async def list_background(self) -> tuple[BackgroundStatus, ...]:
        """Return the latest 100 background executions, without output and result; those that have not ended come first."""
        return await self._do(ops.list_background())

    async def stats(self) -> Mapping[str, Any]:
        """Return statistics of the workspace, the limits, the tools and the sandbox."""
        return await self._do(ops.stats())

    @property
    def files(self) -> AsyncFiles:
        """The workspace, /workspace in code."""
        return AsyncFiles(self._do)

    @property
    def skills(self) -> AsyncSkills:
        """Saved Python that code imports with from skills import NAME."""
        return AsyncSkills(self._do)

    @property
    def state(self) -> AsyncStates:
        """Small JSON values, get_state and save_state in code."""
        return AsyncStates(self._do)

    @property
    def tools(self) -> AsyncTools:
        """The tools of connected MCP servers."""
        return AsyncTools(self._do)

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


class AsyncSession:
    """Executions that share variables, imports and functions."""

    def __init__(self, client: AsyncSandpiper, id: str) -> None:
        self.id = id
        self._client = client

    async def execute(
        self,
        code: str,
        *,
        context_vars: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        memory_mb: int | None = None,
        task_description: str | None = None,
        check: bool = True,
    ) -> Result:
        """Run code with the variables of earlier executions; see Sandpiper.execute."""
        return await self._client.execute(
            code,
            context_vars=context_vars,
            timeout_seconds=timeout_seconds,
            memory_mb=memory_mb,
            session_id=self.id,
            task_description=task_description,
            check=check,
        )
