"""What each method sends and how it reads the answers, for the sync and the async client.

An operation is a generator: it yields what is to be done, is sent the answer, and returns
its result. Those about tools of servers are in _tool_operations, and those of background
executions, workflows, schedules and forms in _run_operations.
"""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union

from ._errors import RequestError
from ._results import Result, Sanitized, Skill, State, TaskResult

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


Step = Union[Call, Pause]
Operation = Generator[Step, Answer, T]
UNANSWERED: Any = ...  # a value that no answer has


def given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


def execute(
    code: str,
    *,
    context_vars: Mapping[str, Any] | None = None,
    timeout_seconds: float | None = None,
    memory_mb: int | None = None,
    session_id: str | None = None,
    dry_run: bool = False,
    task_description: str | None = None,
    check: bool = True,
) -> Operation[Result]:
    """Run code in the sandbox.

    context_vars become variables of the code. With session_id, variables persist to the next
    execution of that session, whose log has the task_description. With dry_run, calls that may
    change something are planned, not made; resume(result.plan_id) makes them. Code that fails raises ExecutionError, and code
    that waits for a person ExecutionSuspended; with check=False both are a Result.
    """
    arguments = given(
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


def session_execute(
    session_id: str,
    code: str,
    *,
    context_vars: Mapping[str, Any] | None = None,
    timeout_seconds: float | None = None,
    memory_mb: int | None = None,
    task_description: str | None = None,
    check: bool = True,
) -> Operation[Result]:
    """Run code with the variables of earlier executions; see Sandpiper.execute."""
    return execute(
        code,
        context_vars=context_vars,
        timeout_seconds=timeout_seconds,
        memory_mb=memory_mb,
        session_id=session_id,
        task_description=task_description,
        check=check,
    )


def resume(execution_id: str, answer: Any = UNANSWERED, *, check: bool = True) -> Operation[Result]:
    """Continue an execution that waits for a person, after an approval or with the answer to
    its question; one that was interrupted; or a plan. Several questions need a dict
    of answers by question id."""
    arguments = {"execution_id": execution_id}
    if answer is not UNANSWERED:
        arguments["answer"] = answer
    result = Result.parse((yield Call("resume_execution", arguments, executes=True)))
    return result.check() if check else result


def waiting(session_id: str | None = None) -> Operation[tuple[Mapping[str, Any], ...]]:
    """Return the executions that can be resumed."""
    answer = yield Call("resume_execution", given(session_id=session_id))
    return tuple(answer.get("executions") or ())


def task(description: str, *, check: bool = True, **options: Any) -> Operation[TaskResult]:
    """Do a task in words: select tools, write code, run it, repair it. options are further
    arguments of the tool execute_task: threshold, top_k, session_id, verbose."""
    result = TaskResult.parse((yield Call("execute_task", {"task_description": description, **options}, executes=True)))
    if check:
        result.check()
    return result


def call(tool: str, arguments: Mapping[str, Any] | None = None) -> Operation[Mapping[str, Any]]:
    """Call a tool of Sandpiper itself, such as list_tool_categories, or a workflow that is a tool, and return its answer.

    Code that the tool runs and that fails raises ExecutionError, or ExecutionSuspended.
    """
    arguments = arguments or {}
    seconds = next((s for s in map(arguments.get, ("timeout_seconds", "timeout")) if isinstance(s, (int, float))), 0)
    answer = yield Call(tool, arguments, executes=True, seconds=seconds)
    if answer.get("success") is False:
        Result.parse(answer).check()
    return answer


_PAGE = 262144  # bytes of a file, the server's limit


def read(path: str) -> Operation[bytes]:
    """Return the content of a file. Private values in text are tokens, as for a model.

    A RuntimeWarning says that images, tags or control characters were changed, so that nothing loads: do not write that back.
    """
    pages: list[bytes] = []
    offset = changed = 0
    while True:
        page = yield Call("read_workspace_file", {"filename": path, "offset": offset, "limit": _PAGE})
        changed += page.get("neutralized", 0)
        content, encoding = page.get("content", ""), page.get("encoding", "utf-8")
        pages.append(base64.b64decode(content) if encoding == "base64" else content.encode(encoding, "surrogatepass"))
        after = page.get("next_offset", 0)
        if after <= offset:
            if changed:
                warnings.warn(f"{changed} images, tags or control characters of {path} were changed; {page.get('as_it_is', '')}", RuntimeWarning, stacklevel=4)
            return b"".join(pages)
        offset = after


def write(path: str, data: str | bytes) -> Operation[None]:
    """Write a file, replacing what was there."""
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


def read_text(path: str) -> Operation[str]:
    """Return the text of a UTF-8 file."""
    return (yield from read(path)).decode()


def list_files(path: str = ".") -> Operation[list[str]]:
    """Return the files beneath a directory, recursively."""
    answer = yield Call("list_workspace_files", {"subpath": path})
    if not answer.get("truncated"):
        return list(answer.get("files") or ())
    # Too many for an answer: code writes the list to a file.
    listing = f".results/files-{len(path)}.json"
    yield from _run("import json; write_file(listing, json.dumps(list_files(path)))", {"path": path, "listing": listing})
    files: list[str] = json.loads((yield from read(listing)))
    return [name for name in files if not name.startswith(".results/")]


def delete(path: str) -> Operation[None]:
    """Delete a file or an empty directory."""
    yield from _run("delete_file(path)", {"path": path})


def _run(code: str, variables: Mapping[str, Any]) -> Operation[Any]:
    """Run code of this module; its exceptions are errors of the operation."""
    result = Result.parse((yield Call("execute_code", {"code": code, "context_vars": variables}, executes=True)))
    if result.suspended:
        result.check()
    if not result.success:
        raise RequestError(result.error or "the operation failed", result.hint or "")
    return result.result


def save_skill(name: str, code: str, description: str = "", tags: Sequence[str] = ()) -> Operation[None]:
    """Save code that defines functions; a skill of that name gets a new version."""
    yield Call("save_skill", {"name": name, "code": code, "description": description, "tags": list(tags)})


def load_skill(name: str, version: int | None = None) -> Operation[Skill]:
    """Return a skill with its code."""
    return Skill.parse((yield Call("load_skill", given(name=name, version=version))))


def list_skills() -> Operation[list[Skill]]:
    """Return all skills."""
    return [Skill.parse(s) for s in (yield from list_all("list_skills", "skills"))]


def list_all(tool: str, key: str) -> Operation[list[Any]]:
    """Return the entries of all pages of a tool; key has those of a page."""
    entries: list[Any] = []
    while True:
        page = yield Call(tool, {"offset": len(entries)})
        entries += page.get(key) or ()
        if page.get("next_offset") != len(entries):  # absent from the last page
            return entries


def search_skills(query: str = "", tags: Sequence[str] = ()) -> Operation[list[Skill]]:
    """Find skills by purpose and tags, the best first."""
    answer = yield Call("search_skills", {"query": query, "tags": list(tags)})
    return [Skill.parse(s) for s in answer.get("skills") or ()]


def delete_skill(name: str) -> Operation[None]:
    """Delete a skill."""
    yield Call("delete_skill", {"name": name})


def get_state(name: str) -> Operation[State]:
    """Return a value with its version."""
    return State.parse((yield Call("get_state", {"state_file": name})))


def save_state(name: str, value: Any) -> Operation[None]:
    """Save a value; None deletes it."""
    yield Call("save_state", {"state_file": name, "state_data": value})


def sanitize(text: str) -> Operation[Sanitized]:
    """Replace personal data in a text by tokens."""
    return Sanitized.parse((yield Call("sanitize_pii", {"text": text})))


def restore(text: str | None = None, *, execution_id: str | None = None, filename: str | None = None) -> Operation[str]:
    """Replace tokens by their values, if the setting pii.restore allows it. Do not pass the values to a model.

    The tokens are those in a text, in the answer about an execution, or the values of a file of the workspace: exactly one of them.
    """
    return str((yield Call("restore_pii", given(text=text, execution_id=execution_id, filename=filename))).get("restored_text", ""))


def stats() -> Operation[Mapping[str, Any]]:
    """Return statistics of the workspace, the limits, the tools and the sandbox."""
    return (yield Call("get_execution_stats"))
