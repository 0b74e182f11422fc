"""The clients: they carry out operations, waiting for each step."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, TypeVar

from . import _operations as ops
from . import _wire
from ._areas import AsyncFiles, AsyncSkills, AsyncStates, AsyncTools, Files, Skills, States, Tools
from ._errors import RequestError, RequestTimeout, SandpiperError, ServerUnavailable, UnsupportedError
from ._http import HTTP
from ._results import Result, TaskResult
from ._stdio import Stdio, find_binary

T = TypeVar("T")


class _Client:
    """What both clients share: the connection, which the first request opens."""

    def __init__(
        self,
        *,
        binary: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        url: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        customer_uid: str | None = None,
        profile: str | None = None,
        timeout: float | None = 600,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the server; nothing is started yet.

        Without url, a server is started for this client:
          binary    the program; default: $SANDPIPER, or sandpiper in $PATH
          config    its configuration file, instead of your own and the project's
          data_dir  its data directory
          tenant    the customer whose data it uses; default: local. customer_uid is another name
          profile   the tools that it offers; default: full
          env       variables, in addition to those of this process
        With url, such as https://mcp.example.com/mcp, the client connects to a server:
          token     its bearer token, which identifies the customer
          profile   default: that of the server
        timeout is the number of seconds to wait for an answer, in addition to the
        timeout_seconds of an execution; None waits without a limit.
        """
        if tenant is not None and customer_uid is not None and tenant != customer_uid:
            raise ValueError(f"tenant is {tenant!r} and customer_uid is {customer_uid!r}; they are one setting, so leave one out")
        tenant = customer_uid if tenant is None else tenant
        if tenant == "":
            raise ValueError("tenant is empty; leave it out for the tenant local")
        self._timeout, self._url, self._token, self._profile = timeout, url, token, profile
        if url is not None:
            for name, value in (("binary", binary), ("config", config), ("data_dir", data_dir), ("tenant", tenant), ("env", env)):
                if value is not None:
                    why = "the token identifies the tenant" if name == "tenant" else f"{name} is for a server that is started"
                    raise ValueError(f"{name} cannot be combined with url: {why}")
            self._make: HTTP | None = HTTP(url, token, profile)
        else:
            self._make = None
            if token is not None:
                raise ValueError("token requires url")
        self._argv: list[str] = []
        self._env: dict[str, str] = {}
        if url is None:
            self._argv = [find_binary(binary), *(["--config", os.fspath(config)] if config is not None else [])]
            self._env = {**os.environ, **(env or {})}
            if data_dir is not None:
                self._env["SANDPIPER_DATA_DIR"] = os.path.abspath(data_dir)
        self._serve = ["serve", "--profile", profile or "full", *([f"--tenant={tenant}"] if tenant is not None else [])]
        self._opening = threading.Lock()
        self._connection: _wire.Connection | None = None
        self._closed = False

    def _connect(self) -> _wire.Connection:
        with self._opening:
            if self._closed:
                raise ServerUnavailable("this client was closed")
            if self._connection is None:
                self._connection = self._make or Stdio([*self._argv, *self._serve], self._env)
            return self._connection

    def _close(self) -> None:
        with self._opening:
            connection, self._connection, self._closed = self._connection, None, True
        if connection is not None:
            connection.close()

    def _command(self, command: ops.Command) -> ops.Answer:
        if not self._argv:
            raise UnsupportedError("selecting tools needs the program sandpiper, which a client with url does not start", "use tools.search")
        try:
            done = subprocess.run(
                [*self._argv, *command.arguments], env=self._env, stdin=subprocess.DEVNULL, capture_output=True, timeout=self._timeout, check=False
            )
        except subprocess.TimeoutExpired as e:
            raise RequestTimeout(f"sandpiper {command.arguments[0]} did not end within {self._timeout:g} seconds") from e
        except OSError as e:
            raise ServerUnavailable(f"{self._argv[0]} cannot be started: {e.strerror}") from e
        if done.returncode != 0:
            message, _, hint = done.stderr.decode(errors="replace").strip().partition("\nhint: ")
            raise RequestError(message.removeprefix("error: "), hint)
        value = json.loads(done.stdout)
        if not isinstance(value, dict):
            raise ServerUnavailable(f"sandpiper {command.arguments[0]} did not print a JSON object")
        return value

    def _submit(self, call: ops.Call) -> Future[_wire.Message]:
        return self._connect().submit("tools/call", {"name": call.tool, "arguments": call.arguments})

    def _limit(self, call: ops.Call) -> float | None:
        return None if self._timeout is None else self._timeout + call.seconds

    def _late(self, call: ops.Call) -> RequestTimeout:
        return RequestTimeout(f"{call.tool} was not answered within {self._limit(call):g} seconds and was cancelled", "raise timeout=")


def _read(call: ops.Call, result: _wire.Message) -> ops.Answer:
    answer, failed = _wire.answer(result)
    # Failed code has an id or a type; a refused request has neither.
    if failed and not (call.executes and ("execution_id" in answer or "error_type" in answer or "tools" in answer)):
        raise RequestError(str(answer.get("error", "the request was refused")), str(answer.get("hint", "")))
    return answer


class Sandpiper(_Client):
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
        _wait(self._connect().submit("server/discover", {}), self._timeout, lambda: RequestTimeout("the server did not answer"))

    def close(self) -> None:
        """End a server that was started. Requests in flight fail."""
        self._close()

    def execute(
        self,
        code: str,
        *,
        context_vars: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        memory_mb: int | None = None,
        session_id: str | None = None,
        dry_run: bool = False,
        check: bool = True,
    ) -> Result:
        """Run code in the sandbox.

        context_vars become variables of the code. With session_id, variables persist to the next
        execution of that session. With dry_run, calls that may change something are planned, not
        made; resume(result.plan_id) makes them. Code that fails raises ExecutionError, and code
        that waits for a person ExecutionSuspended; with check=False both are a Result.
        """
        return self._do(ops.execute(code, context_vars, timeout_seconds, memory_mb, session_id, dry_run, check))

    def resume(self, execution_id: str, answer: Any = ops.UNANSWERED, *, check: bool = True) -> Result:
        """Continue an execution that waits for a person, after an approval or with the answer to
        its question; one that was interrupted; or a plan. Several questions need a dict
        of answers by question id."""
        return self._do(ops.resume(execution_id, answer, check))

    def waiting(self, session_id: str | None = None) -> tuple[Mapping[str, Any], ...]:
        """Return the executions that can be resumed."""
        return self._do(ops.waiting(session_id))

    def session(self, id: str) -> Session:
        """Return a session, whose executions share variables. It needs no closing."""
        return Session(self, id)

    def task(self, description: str, *, check: bool = True, **options: Any) -> TaskResult:
        """Do a task in words: select tools, write code, run it, repair it. options are further
        arguments of the tool execute_task."""
        return self._do(ops.task(description, options, check))

    def stats(self) -> Mapping[str, Any]:
        """Return statistics of the workspace, the limits, the tools and the sandbox."""
        return self._do(ops.stats())

    @property
    def files(self) -> Files:
        """The workspace, /workspace in code."""
        return Files(self._do)

    @property
    def skills(self) -> Skills:
        """Saved Python that code imports with from skills import NAME."""
        return Skills(self._do)

    @property
    def state(self) -> States:
        """Small JSON values, get_state and save_state in code."""
        return States(self._do)

    @property
    def tools(self) -> Tools:
        """The tools of connected MCP servers."""
        return Tools(self._do)

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
        if isinstance(step, ops.Command):
            return self._command(step)
        call = step
        return _read(call, _wait(self._submit(call), self._limit(call), lambda: self._late(call)))


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


class Session:
    """Executions that share variables, imports and functions."""

    def __init__(self, client: Sandpiper, id: str) -> None:
        self.id = id
        self._client = client

    def execute(
        self,
        code: str,
        *,
        context_vars: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        memory_mb: int | None = None,
        check: bool = True,
    ) -> Result:
        """Run code with the variables of earlier executions; see Sandpiper.execute."""
        return self._client.execute(
            code, context_vars=context_vars, timeout_seconds=timeout_seconds, memory_mb=memory_mb, session_id=self.id, check=check
        )


class AsyncSandpiper(_Client):
    """A client for asyncio, with the methods of Sandpiper. Cancelling a task cancels its request."""

    async def __aenter__(self) -> AsyncSandpiper:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def open(self) -> None:
        """Start the server, or connect to it, and wait until it answers."""
        await _await(self._connect().submit("server/discover", {}), self._timeout, lambda: RequestTimeout("the server did not answer"))

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
        check: bool = True,
    ) -> Result:
        """Run code in the sandbox; see Sandpiper.execute."""
        return await self._do(ops.execute(code, context_vars, timeout_seconds, memory_mb, session_id, dry_run, check))

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
        if isinstance(step, ops.Command):
            return await asyncio.to_thread(self._command, step)
        call = step
        return _read(call, await _await(self._submit(call), self._limit(call), lambda: self._late(call)))


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
        check: bool = True,
    ) -> Result:
        """Run code with the variables of earlier executions; see Sandpiper.execute."""
        return await self._client.execute(
            code, context_vars=context_vars, timeout_seconds=timeout_seconds, memory_mb=memory_mb, session_id=self.id, check=check
        )
