"""The operations about the tools of MCP servers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ._operations import Answer, Call, Operation, Pause, execute, given, read
from ._results import Selection, Tool

_PAUSE = Pause(0.2)  # while servers are starting
_MOST_PAUSES = 300


def search(
    query: str | Sequence[str], *, category: str | None = None, max_results: int | None = None, detail_level: str = "summary"
) -> Operation[list[Tool]]:
    """Find tools by what they do, the best first; of several queries, the best of each first."""
    if detail_level not in ("name", "summary", "full"):
        raise ValueError(f"detail_level is {detail_level!r}; it must be name, summary or full")
    arguments = given(query=query if isinstance(query, str) else list(query), category=category, max_results=10 if max_results is None else max_results, detail_level=detail_level)
    pauses = 0
    answer = yield Call("search_tools", arguments)
    while answer.get("starting") and pauses < _MOST_PAUSES:
        pauses += 1
        yield _PAUSE
        answer = yield Call("search_tools", arguments)
    if missing := answer.get("starting"):
        warnings.warn(f"the search does not include the tools of {', '.join(missing)}, which are still starting", RuntimeWarning, stacklevel=4)
    return [Tool.parse(t) for t in answer.get("tools") or ()]


def select(task: str, *, threshold: float | None = None, top_k: int | None = None) -> Operation[Selection]:
    """Select the few tools that a task needs. It waits for servers that are starting."""
    return Selection.parse((yield Call("select_tools", given(task_description=task, threshold=threshold, top_k=top_k))))


def describe(name: str) -> Operation[Tool]:
    """Return the definition of SERVER.TOOL; raw has its schemas."""
    yield from _settled()
    return Tool.parse((yield Call("get_tool_definition", {"tool_name": name, "schemas": True})))


def of_server(server: str) -> Operation[list[Tool]]:
    """Return the tools of a server."""
    answer = yield from _known(Call("get_server_tools", {"server_name": server}))
    return [Tool.parse(t, server) for t in answer.get("tools") or ()]


def servers() -> Operation[list[Answer]]:
    """Return the connected servers and their state."""
    yield from _settled()
    return list((yield Call("list_servers")).get("servers") or ())


def call(name: str, arguments: Mapping[str, Any] | None = None, *, timeout_seconds: float | None = None) -> Operation[Any]:
    """Call SERVER.TOOL as code would, with policy and approvals, and return its result."""
    server, dot, tool = name.partition(".")
    if not dot or not tool:
        raise ValueError(f"the tool is {name!r}; it must be SERVER.TOOL, such as calculator.add")
    code = "result = call_tool(server, tool, **arguments)"
    variables = {"server": server, "tool": tool, "arguments": dict(arguments or {})}
    result = yield from execute(code, context_vars=variables, timeout_seconds=timeout_seconds)
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
