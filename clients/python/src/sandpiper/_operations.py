"""What each method sends and how it reads the answers, for the sync and the async client.

An operation is a generator: it yields what is to be done, is sent the answer, and returns
its result.
"""

from __future__ import annotations

import base64
import json
import time
import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union

from ._errors import RequestError, RequestTimeout
from ._results import BackgroundStatus, Result, Selection, Skill, State, TaskResult, Tool

T = TypeVar("T")
Answer = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """Call a tool of Sandpiper. Failed code is an answer, other errors are raised."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    executes: bool = False  # an answer that is an error may be a result of code
    seconds: float = 0  # that the call may take longer than others


@dataclass(frozen=True)
class Pause:
    seconds: float


_PAUSE = Pause(0.2)  # while servers are starting
_MOST_PAUSES = 300


Step = Union[Call, Pause]
Operation = Generator[Step, Answer, T]
UNANSWERED: Any = ...  # a value that no answer has


def _set(**arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def execute(
    code: str,
    context_vars: Mapping[str, Any] | None,
    timeout_seconds: float | None,
    memory_mb: int | None,
    session_id: str | None,
    dry_run: bool,
    task_description: str | None,
    check: bool,
) -> Operation[Result]:
    arguments = _set(
        code=code,
        context_vars=context_vars,
        timeout_seconds=timeout_seconds,
        memory_mb=memory_mb,
        session_id=session_id,
        dry_run=dry_run or None,
        task_description=task_description,
    )
    result = Result.parse((yield Call("execute_code", arguments, executes=True, seconds=timeout_seconds or 0)))
    return result.check() if check else result


def resume(execution_id: str, answer: Any, check: bool) -> Operation[Result]:
    arguments = {"execution_id": execution_id}
    if answer is not UNANSWERED:
        arguments["answer"] = answer
    result = Result.parse((yield Call("resume_execution", arguments, executes=True)))
    return result.check() if check else result


def waiting(session_id: str | None) -> Operation[tuple[Answer, ...]]:
    answer = yield Call("resume_execution", _set(session_id=session_id))
    return tuple(answer.get("executions") or ())


def task(description: str, options: Mapping[str, Any], check: bool) -> Operation[TaskResult]:
    result = TaskResult.parse((yield Call("execute_task", {"task_description": description, **options}, executes=True)))
    if check:
        result.check()
    return result


def dispatch(
    code: str | None,
    description: str | None,
    context_vars: Mapping[str, Any] | None,
    timeout_seconds: float | None,
    on_restart: str | None,
) -> Operation[str]:
    arguments = _set(code=code, task_description=description, context_vars=context_vars, timeout_seconds=timeout_seconds, on_restart=on_restart)
    return str((yield Call("dispatch_background_task", arguments))["execution_id"])


def background_status(execution_id: str) -> Operation[BackgroundStatus]:
    return BackgroundStatus.parse((yield Call("get_background_task_status", {"execution_id": execution_id})))


_WAIT = 60.0  # seconds of one request; the server allows an hour


def await_background(execution_id: str, timeout: float | None, check: bool) -> Operation[Result]:
    ends = None if timeout is None else time.monotonic() + timeout
    while True:
        seconds = _WAIT if ends is None else min(_WAIT, max(ends - time.monotonic(), 0.001))
        call = Call("wait_for_background_task", {"execution_id": execution_id, "timeout": seconds}, seconds=seconds)
        status = BackgroundStatus.parse((yield call))
        if status.ended or status.questions:
            result = status.outcome()
            return result.check() if check else result
        if ends is not None and time.monotonic() >= ends:
            raise RequestTimeout(f"execution {execution_id} did not end within {timeout:g} seconds; it is {status.state}", "it continues: call wait() again, or cancel()")


def list_background() -> Operation[tuple[BackgroundStatus, ...]]:
    answer = yield Call("list_background_tasks")
    return tuple(map(BackgroundStatus.parse, answer.get("executions") or ()))


def cancel_background(execution_id: str) -> Operation[None]:
    yield Call("cancel_background_task", {"execution_id": execution_id})


def signal(execution_id: str, event: str, value: Any) -> Operation[None]:
    yield Call("signal_execution", {"execution_id": execution_id, "event": event, "value": value})


_PAGE = 262144  # bytes of a file, the server's limit


def read(path: str) -> Operation[bytes]:
    pages: list[bytes] = []
    offset = 0
    while True:
        page = yield Call("read_workspace_file", {"filename": path, "offset": offset, "limit": _PAGE})
        content = page.get("content", "")
        pages.append(base64.b64decode(content) if page.get("encoding") == "base64" else content.encode("utf-8", "surrogatepass"))
        after = page.get("next_offset", 0)
        if after <= offset:
            return b"".join(pages)
        offset = after


def write(path: str, data: str | bytes) -> Operation[None]:
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        # The tool writes text; code writes bytes.
        yield from _run(
            "import base64; write_file(path, base64.b64decode(data))",
            {"path": path, "data": base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()},
        )
        return
    yield Call("write_workspace_file", {"filename": path, "content": text})


def list_files(path: str) -> Operation[list[str]]:
    answer = yield Call("list_workspace_files", {"subpath": path})
    if not answer.get("truncated"):
        return list(answer.get("files") or ())
    # Too many for an answer: code writes the list to a file.
    listing = f".results/files-{len(path)}.json"
    yield from _run("import json; write_file(listing, json.dumps(list_files(path)))", {"path": path, "listing": listing})
    files: list[str] = json.loads((yield from read(listing)))
    return [name for name in files if not name.startswith(".results/")]


def delete(path: str) -> Operation[None]:
    yield from _run("delete_file(path)", {"path": path})


def _run(code: str, variables: Mapping[str, Any]) -> Operation[Any]:
    """Run code of this module; its exceptions are errors of the operation."""
    result = Result.parse((yield Call("execute_code", {"code": code, "context_vars": variables}, executes=True)))
    if result.suspended:
        result.check()
    if not result.success:
        raise RequestError(result.error or "the operation failed", result.hint or "")
    return result.result


def save_skill(name: str, code: str, description: str, tags: Sequence[str]) -> Operation[None]:
    yield Call("save_skill", {"name": name, "code": code, "description": description, "tags": list(tags)})


def load_skill(name: str, version: int | None) -> Operation[Skill]:
    return Skill.parse((yield Call("load_skill", _set(name=name, version=version))))


def list_skills() -> Operation[list[Skill]]:
    return [Skill.parse(s) for s in (yield Call("list_skills")).get("skills") or ()]


def search_skills(query: str, tags: Sequence[str]) -> Operation[list[Skill]]:
    answer = yield Call("search_skills", {"query": query, "tags": list(tags)})
    return [Skill.parse(s) for s in answer.get("skills") or ()]


def delete_skill(name: str) -> Operation[None]:
    yield Call("delete_skill", {"name": name})


def get_state(name: str) -> Operation[State]:
    return State.parse((yield Call("get_state", {"state_file": name})))


def save_state(name: str, value: Any) -> Operation[None]:
    yield Call("save_state", {"state_file": name, "state_data": value})


def search_tools(query: str, category: str | None, max_results: int | None, detail_level: str) -> Operation[list[Tool]]:
    if detail_level not in ("name", "summary", "full"):
        raise ValueError(f"detail_level is {detail_level!r}; it must be name, summary or full")
    arguments = _set(query=query, category=category, max_results=10 if max_results is None else max_results, detail_level=detail_level)
    pauses = 0
    answer = yield Call("search_tools", arguments)
    while answer.get("starting") and pauses < _MOST_PAUSES:
        pauses += 1
        yield _PAUSE
        answer = yield Call("search_tools", arguments)
    if missing := answer.get("starting"):
        warnings.warn(f"the search does not include the tools of {', '.join(missing)}, which are still starting", RuntimeWarning, stacklevel=4)
    return [Tool.parse(t) for t in answer.get("tools") or ()]


def select_tools(task: str, threshold: float | None, top_k: int | None) -> Operation[Selection]:
    return Selection.parse((yield Call("select_tools", _set(task_description=task, threshold=threshold, top_k=top_k))))


def describe_tool(name: str) -> Operation[Tool]:
    yield from _settled()
    return Tool.parse((yield Call("get_tool_definition", {"tool_name": name, "schemas": True})))


def server_tools(server: str) -> Operation[list[Tool]]:
    answer = yield from _known(Call("get_server_tools", {"server_name": server}))
    return [Tool.parse(t, server) for t in answer.get("tools") or ()]


def servers() -> Operation[list[Answer]]:
    yield from _settled()
    return list((yield Call("list_servers")).get("servers") or ())


def call_tool(name: str, arguments: Mapping[str, Any], timeout_seconds: float | None) -> Operation[Any]:
    server, dot, tool = name.partition(".")
    if not dot or not tool:
        raise ValueError(f"the tool is {name!r}; it must be SERVER.TOOL, such as calculator.add")
    code = "result = call_tool(server, tool, **arguments)"
    result = yield from execute(code, {"server": server, "tool": tool, "arguments": dict(arguments)}, timeout_seconds, None, None, False, None, True)
    if result.is_preview and result.result_file:
        return json.loads((yield from read(result.result_file)))
    return result.result


def _known(call: Call) -> Operation[Answer]:
    """Make a call about tools. An empty answer may mean that servers have not listed theirs yet."""
    answer = yield call
    if not answer.get("tools"):
        yield from _settled()
        answer = yield call
    return answer


def _settled() -> Operation[None]:
    """Wait until servers have listed their tools for the first time, at most 60 seconds."""
    for _ in range(_MOST_PAUSES):
        known = (yield Call("list_servers")).get("servers") or ()
        if not any(s.get("state") == "starting" and not s.get("tool_count") for s in known):
            return
        yield _PAUSE


def stats() -> Operation[Answer]:
    return (yield Call("get_execution_stats"))
