"""The exceptions of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._results import Question, Result


class SandpiperError(Exception):
    """The base of all exceptions of this package.

    message says what was wrong; hint, which may be empty, what to do.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class BinaryNotFound(SandpiperError):
    """There is no program sandpiper to start."""


class ServerUnavailable(SandpiperError):
    """The server could not be started or reached, has ended, or refuses all requests now."""


class RequestTimeout(SandpiperError, TimeoutError):
    """The server did not answer in time. The request was cancelled."""


class AccessDenied(SandpiperError):
    """The server refused the token."""


class UnsupportedError(SandpiperError):
    """The server does not offer the operation."""


class RequestError(SandpiperError):
    """The server refused a request: its arguments, a quota, a name that does not exist."""


class ExecutionError(SandpiperError):
    """The code raised an exception, was refused, or reached a limit."""

    def __init__(self, result: Result) -> None:
        kind = f"{result.error_type}: " if result.error_type else ""
        super().__init__(kind + (result.error or "the execution failed"), result.hint or "")
        self.result = result


class ExecutionSuspended(ExecutionError):
    """The code waits for an answer or an approval of a person.

    After an approval, or with the answer, resume(execution_id, answer) returns the result.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        approvals = [q.approval_id for q in result.questions if q.approval_id]
        self.message = "the code waits for a person: " + "\n".join(q.question for q in result.questions)
        self.hint = f"resume({result.execution_id!r}, answer) with the person's answer"
        if approvals:
            self.hint = f"the person runs: sandpiper approvals approve {' '.join(approvals)} (or deny); then resume({result.execution_id!r})"

    @property
    def execution_id(self) -> str:
        return self.result.execution_id

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.result.questions
