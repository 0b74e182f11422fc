"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, TypeVar

from . import _operations as ops
from . import _wire
from ._areas import Files, Skills, States, Tools
from ._background import Background
from ._base import Client, read
from ._errors import RequestTimeout, SandpiperError
from ._results import BackgroundStatus, Result, TaskResult

T = TypeVar("T")


class Sandpiper(Client):
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

    def execute(
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
        """Run code in the sandbox.

        context_vars become variables of the code. With session_id, variables persist to the next
        execution of that session, whose log has the task_description. With dry_run, calls that may
        change something are planned, not made; resume(result.plan_id) makes them. Code that fails raises ExecutionError, and code
        that waits for a person ExecutionSuspended; with check=False both are a Result.
        """
        return self._do(ops.execute(code, context_vars, timeout_seconds, memory_mb, session_id, dry_run, task_description, check))

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
        arguments of the tool execute_task: threshold, top_k, session_id, verbose."""
        return self._do(ops.task(description, options, check))

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
        return Background(self._do, self._do(ops.dispatch(code, task, context_vars, timeout_seconds, on_restart)))

    def background(self, execution_id: str) -> Background:
        """Return the handle of a background execution with that id, which is not checked."""
        return Background(self._do, execution_id)

    def list_background(self) -> tuple[BackgroundStatus, ...]:
        """Return the latest 100 background executions, without output and result; those that have not ended come first."""
        return self._do(ops.list_background())

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
        task_description: str | None = None,
        check: bool = True,
    ) -> Result:
        """Run code with the variables of earlier executions; see Sandpiper.execute."""
        return self._client.execute(
            code,
            context_vars=context_vars,
            timeout_seconds=timeout_seconds,
            memory_mb=memory_mb,
            session_id=self.id,
            task_description=task_description,
            check=check,
        )
