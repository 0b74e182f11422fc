"""Handles of background executions, which outlive the client and the server."""

from __future__ import annotations

from typing import Any

from . import _operations as ops
from ._areas import _AsyncDo, _Do
from ._results import BackgroundStatus, Result


class Background:
    """A background execution. Keep execution_id to find it again, also in another program."""

    def __init__(self, do: _Do, execution_id: str) -> None:
        self._do = do
        self.execution_id = execution_id

    def status(self) -> BackgroundStatus:
        """Return its state, its progress and the last output."""
        return self._do(ops.background_status(self.execution_id))

    def wait(self, timeout: float | None = None, *, check: bool = True) -> Result:
        """Wait for its end and return the result.

        Code that failed or was cancelled raises ExecutionError, and code that waits for a person
        ExecutionSuspended; with check=False both are a Result. After timeout seconds RequestTimeout
        is raised; the execution continues.
        """
        return self._do(ops.await_background(self.execution_id, timeout, check))

    def cancel(self) -> None:
        """End the execution, and the tool call that it makes. One that has ended stays as it is."""
        self._do(ops.cancel_background(self.execution_id))

    def signal(self, event: str, value: Any = None) -> None:
        """Send an event with a JSON value, which the code receives by wait_for(event)."""
        self._do(ops.signal(self.execution_id, event, value))


class AsyncBackground:
    """A background execution; see Background."""

    def __init__(self, do: _AsyncDo, execution_id: str) -> None:
        self._do = do
        self.execution_id = execution_id

    async def status(self) -> BackgroundStatus:
        """Return its state, its progress and the last output."""
        return await self._do(ops.background_status(self.execution_id))

    async def wait(self, timeout: float | None = None, *, check: bool = True) -> Result:
        """Wait for its end and return the result; see Background.wait."""
        return await self._do(ops.await_background(self.execution_id, timeout, check))

    async def cancel(self) -> None:
        """End the execution, and the tool call that it makes. One that has ended stays as it is."""
        await self._do(ops.cancel_background(self.execution_id))

    async def signal(self, event: str, value: Any = None) -> None:
        """Send an event with a JSON value, which the code receives by wait_for(event)."""
        await self._do(ops.signal(self.execution_id, event, value))
