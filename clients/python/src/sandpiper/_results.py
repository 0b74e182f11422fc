"""What the operations return. The attribute raw of each has the server's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._errors import SandpiperError

Answer = Mapping[str, Any]


def _raw() -> Any:
    return field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Question:
    """A question of suspended code to a person."""

    id: str
    question: str
    source: str  # the tool that asks or is to be called; "" for a question of the code
    approval_id: str  # "" for a question; an approval is given elsewhere, see docs/approvals.md
    schema: Mapping[str, Any] | None

    @classmethod
    def parse(cls, a: Answer) -> Question:
        return cls(a.get("id", ""), a.get("question", ""), a.get("from", ""), a.get("approval_id", ""), a.get("schema"))


@dataclass(frozen=True)
class PlannedCall:
    """A call that a dry run did not make."""

    call: int
    server: str
    tool: str
    arguments: Mapping[str, Any]
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer) -> PlannedCall:
        return cls(a.get("call", 0), a.get("server", ""), a.get("tool", ""), a.get("arguments") or {}, a)


@dataclass(frozen=True)
class Result:
    """The result of an execution."""

    success: bool
    result: Any  # the variable result, or the last expression, as JSON
    output: str  # what the code printed
    execution_id: str
    error: str | None = None
    error_type: str | None = None  # class of the exception, or timeout, memory, approval_required, …
    hint: str | None = None
    traceback: str = ""
    warnings: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()  # of suspended code
    is_preview: bool = False  # result describes a value that is too large
    result_file: str | None = None  # the complete value as JSON, for files.read, if is_preview
    session_state: str | None = None  # new, live, restarted or ended
    plan: tuple[PlannedCall, ...] = ()  # of a dry run
    plan_id: str | None = None
    execution_time_ms: int = 0
    stderr: str = ""  # what the code wrote to stderr, with warnings
    raw: Answer = _raw()

    @property
    def suspended(self) -> bool:
        """Whether the code waits for a person. Code cannot imitate it."""
        return self.error_type == "approval_required" and self.raw.get("error_source") == "sandpiper"

    def check(self) -> Result:
        """Return the result itself, or raise ExecutionSuspended or ExecutionError."""
        if self.suspended:
            raise ExecutionSuspended(self)
        if not self.success:
            raise ExecutionError(self)
        return self

    @classmethod
    def parse(cls, a: Answer) -> Result:
        preview = bool(a.get("result_is_preview"))
        value = a.get("result")
        path = value.get("path") if preview and isinstance(value, Mapping) else None
        return cls(
            success=bool(a.get("success")),
            result=value,
            output="\n".join(str(line) for line in a.get("output") or ()),
            execution_id=a.get("execution_id", ""),
            error=a.get("error"),
            error_type=a.get("error_type"),
            hint=a.get("hint"),
            traceback=a.get("traceback", ""),
            stderr=a.get("stderr", ""),
            warnings=tuple(a.get("warnings") or ()),
            questions=tuple(map(Question.parse, a.get("questions") or ())),
            is_preview=preview,
            result_file=path.removeprefix("/workspace/") if isinstance(path, str) else None,
            session_state=(a.get("session") or {}).get("state"),
            plan=tuple(map(PlannedCall.parse, a.get("plan") or ())),
            plan_id=a.get("plan_id"),
            execution_time_ms=a.get("execution_time_ms", 0),
            raw=a,
        )


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


@dataclass(frozen=True)
class TaskResult(Result):
    """The result of a task in words."""

    code: str = ""  # the program that ran last
    tools: tuple[str, ...] = ()  # SERVER.TOOL, that it could call
    share: float = 0.0  # of all tools, 0 to 1
    available: int = 0
    saved_tokens: int = 0
    attempts: tuple[Answer, ...] = ()
    usage: Answer | None = None  # of a model

    @classmethod
    def parse(cls, a: Answer) -> TaskResult:
        return cls(
            **vars(Result.parse(a)),
            code=a.get("code", ""),
            tools=tuple(a.get("tools") or ()),
            share=a.get("tools_used_share", 0.0),
            available=a.get("tools_available", 0),
            saved_tokens=a.get("saved_tokens", 0),
            attempts=tuple(a.get("attempts") or ()),
            usage=a.get("usage"),
        )


@dataclass(frozen=True)
class BackgroundStatus:
    """The state of a background execution."""

    execution_id: str
    state: str  # queued, running, input_required, waiting, completed, failed, cancelled or interrupted
    description: str = ""  # of a task in words
    progress: Answer | None = None  # progress, total and message, of code that reports it
    output: str = ""  # what the code printed last, while it runs
    questions: tuple[Question, ...] = ()  # if a person is asked
    due: str | None = None  # when one that waits continues, in ISO 8601
    hint: str | None = None
    result: Result | None = None  # of one that has ended
    raw: Answer = _raw()

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self.state in ("completed", "failed", "cancelled", "interrupted")

    def outcome(self) -> Result:
        """Return the result, or one of code that waits for a person."""
        if self.result is not None:
            return self.result
        asked = {"error_type": "approval_required", "error_source": "sandpiper"} if self.questions else {"error_type": self.state}
        error = "the code waits for a person" if self.questions else f"the execution was {self.state}"
        raw = {"success": False, "error": error, "hint": self.hint, "execution_id": self.execution_id, "questions": self.raw.get("questions"), **asked}
        return Result.parse(raw)

    @classmethod
    def parse(cls, a: Answer) -> BackgroundStatus:
        result = a.get("result")
        return cls(
            execution_id=a.get("execution_id", ""),
            state=a.get("state", ""),
            description=a.get("task_description", ""),
            progress=a.get("progress"),
            output="\n".join(str(line) for line in a.get("output") or ()),
            questions=tuple(map(Question.parse, a.get("questions") or ())),
            due=a.get("due"),
            hint=a.get("hint"),
            result=Result.parse(result) if isinstance(result, Mapping) else None,
            raw=a,
        )


@dataclass(frozen=True)
class Tool:
    """A tool of an MCP server that is connected to Sandpiper."""

    name: str  # SERVER.TOOL
    server: str
    tool: str
    description: str
    score: float | None = None  # of a selection, relative to the best tool
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer, server: str = "") -> Tool:
        tool = str(a.get("name") or a.get("tool") or "")
        server = str(a.get("mcp_server") or a.get("server") or server)
        if not server and "." in tool:
            server, tool = tool.split(".", 1)
        tool = tool.removeprefix(server + ".")
        return cls(f"{server}.{tool}", server, tool, str(a.get("description") or ""), a.get("score"), a)


@dataclass(frozen=True)
class Selection:
    """The tools for a task, the best first."""

    tools: tuple[Tool, ...]
    available: int  # tools that can be called
    share: float  # of them that are selected, 0 to 1
    tokens: int  # of the definitions of the selected tools
    all_tokens: int  # of those of all tools
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer) -> Selection:
        tools = tuple(map(Tool.parse, a.get("tools") or ()))
        return cls(tools, a.get("available", 0), a.get("share", 0.0), a.get("tokens", 0), a.get("all_tokens", 0), a)


@dataclass(frozen=True)
class Skill:
    """A saved skill. code is empty in lists."""

    name: str
    description: str
    tags: tuple[str, ...]
    version: int
    code: str
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer) -> Skill:
        m = a.get("metadata") or a
        return cls(m.get("name", ""), m.get("description", ""), tuple(m.get("tags") or ()), m.get("version", 0), a.get("code", ""), a)


@dataclass(frozen=True)
class State:
    """A saved JSON value."""

    name: str
    value: Any
    version: int
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer) -> State:
        return cls(a.get("state_file", ""), a.get("state_data"), a.get("version", 0), a)


@dataclass(frozen=True)
class Workflow:
    """A saved workflow."""

    name: str
    description: str
    version: str
    origin: str  # where it is saved
    inputs: Mapping[str, Any] | None  # JSON schema
    steps: int
    problem: str  # the first error in it; "" if it can run
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer) -> Workflow:
        return cls(
            name=a.get("name", ""),
            description=a.get("description", ""),
            version=a.get("version", ""),
            origin=a.get("origin", ""),
            inputs=a.get("inputs"),
            steps=a.get("steps", 0),
            problem=a.get("problem", ""),
            raw=a,
        )


@dataclass(frozen=True)
class Schedule:
    """A schedule. raw has its last run too."""

    name: str
    when: str  # the cron expression, or every and a time
    time_zone: str
    runs: str  # skill or workflow, and its name
    inputs: Mapping[str, Any] | None
    source: str  # configuration or agent
    state: str  # active, paused or damaged
    on_overlap: str
    on_missed: str
    next: str | None  # when it runs, in ISO 8601
    last_outcome: str = ""  # started, completed, failed, cancelled, interrupted, unknown, skipped or missed; "" before the first run
    last_error: str = ""  # why the last run failed
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer) -> Schedule:
        last = a.get("last") or {}
        return cls(
            name=a.get("name", ""),
            when=a.get("when", ""),
            time_zone=a.get("time_zone", ""),
            runs=a.get("runs", ""),
            inputs=a.get("inputs"),
            source=a.get("source", ""),
            state=a.get("state", ""),
            on_overlap=a.get("on_overlap", ""),
            on_missed=a.get("on_missed", ""),
            next=a.get("next"),
            last_outcome=last.get("outcome", ""),
            last_error=last.get("error", ""),
            raw=a,
        )


@dataclass(frozen=True)
class Sanitized:
    """A text with tokens instead of personal data."""

    text: str
    found: int  # values
    types: tuple[str, ...]  # such as EMAIL
    raw: Answer = _raw()

    @classmethod
    def parse(cls, a: Answer) -> Sanitized:
        return cls(a.get("sanitized_text", ""), a.get("pii_found", 0), tuple(a.get("pii_types") or ()), a)
