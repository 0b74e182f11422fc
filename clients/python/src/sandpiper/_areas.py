"""The parts of a client: files, skills, state and tools."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from . import _operations as ops
from ._results import Selection, Skill, State, Tool

T = TypeVar("T")


class _Do(Protocol):
    def __call__(self, operation: ops.Operation[T], /) -> T: ...


class _AsyncDo(Protocol):
    def __call__(self, operation: ops.Operation[T], /) -> Awaitable[T]: ...


class Files:
    """The files of the workspace."""

    def __init__(self, do: _Do) -> None:
        self._do = do

    def read(self, path: str) -> bytes:
        """Return the content of a file. Private values in text are tokens, as for a model."""
        return self._do(ops.read(path))

    def read_text(self, path: str) -> str:
        """Return the text of a UTF-8 file."""
        return self.read(path).decode()

    def write(self, path: str, data: str | bytes) -> None:
        """Write a file, replacing what was there."""
        self._do(ops.write(path, data))

    def list(self, path: str = ".") -> builtins.list[str]:
        """Return the files beneath a directory, recursively."""
        return self._do(ops.list_files(path))

    def delete(self, path: str) -> None:
        """Delete a file or an empty directory."""
        self._do(ops.delete(path))


class Skills:
    """Saved Python modules."""

    def __init__(self, do: _Do) -> None:
        self._do = do

    def save(self, name: str, code: str, description: str = "", tags: Sequence[str] = ()) -> None:
        """Save code that defines functions; a skill of that name gets a new version."""
        self._do(ops.save_skill(name, code, description, tags))

    def load(self, name: str, version: int | None = None) -> Skill:
        """Return a skill with its code."""
        return self._do(ops.load_skill(name, version))

    def list(self) -> builtins.list[Skill]:
        """Return all skills."""
        return self._do(ops.list_skills())

    def search(self, query: str = "", tags: Sequence[str] = ()) -> builtins.list[Skill]:
        """Find skills by purpose and tags, the best first."""
        return self._do(ops.search_skills(query, tags))

    def delete(self, name: str) -> None:
        """Delete a skill."""
        self._do(ops.delete_skill(name))


class States:
    """Small JSON values by name."""

    def __init__(self, do: _Do) -> None:
        self._do = do

    def get(self, name: str) -> State:
        """Return a value with its version."""
        return self._do(ops.get_state(name))

    def save(self, name: str, value: Any) -> None:
        """Save a value; None deletes it."""
        self._do(ops.save_state(name, value))


class Tools:
    """The tools of connected MCP servers."""

    def __init__(self, do: _Do) -> None:
        self._do = do

    def search(self, query: str, *, category: str | None = None, max_results: int | None = None, detail_level: str = "summary") -> list[Tool]:
        """Find tools by what they do, the best first."""
        return self._do(ops.search_tools(query, category, max_results, detail_level))

    def select(self, task: str, *, threshold: float | None = None, top_k: int | None = None) -> Selection:
        """Select the few tools that a task needs. It waits for servers that are starting."""
        return self._do(ops.select_tools(task, threshold, top_k))

    def describe(self, name: str) -> Tool:
        """Return the definition of SERVER.TOOL; raw has its schemas."""
        return self._do(ops.describe_tool(name))

    def of_server(self, server: str) -> list[Tool]:
        """Return the tools of a server."""
        return self._do(ops.server_tools(server))

    def servers(self) -> list[dict[str, Any]]:
        """Return the connected servers and their state."""
        return self._do(ops.servers())

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_seconds: float | None = None) -> Any:
        """Call SERVER.TOOL as code would, with policy and approvals, and return its result."""
        return self._do(ops.call_tool(name, arguments or {}, timeout_seconds))


class AsyncFiles:
    """The files of the workspace."""

    def __init__(self, do: _AsyncDo) -> None:
        self._do = do

    async def read(self, path: str) -> bytes:
        """Return the content of a file. Private values in text are tokens, as for a model."""
        return await self._do(ops.read(path))

    async def read_text(self, path: str) -> str:
        """Return the text of a UTF-8 file."""
        return (await self.read(path)).decode()

    async def write(self, path: str, data: str | bytes) -> None:
        """Write a file, replacing what was there."""
        await self._do(ops.write(path, data))

    async def list(self, path: str = ".") -> builtins.list[str]:
        """Return the files beneath a directory, recursively."""
        return await self._do(ops.list_files(path))

    async def delete(self, path: str) -> None:
        """Delete a file or an empty directory."""
        await self._do(ops.delete(path))


class AsyncSkills:
    """Saved Python modules."""

    def __init__(self, do: _AsyncDo) -> None:
        self._do = do

    async def save(self, name: str, code: str, description: str = "", tags: Sequence[str] = ()) -> None:
        """Save code that defines functions; a skill of that name gets a new version."""
        await self._do(ops.save_skill(name, code, description, tags))

    async def load(self, name: str, version: int | None = None) -> Skill:
        """Return a skill with its code."""
        return await self._do(ops.load_skill(name, version))

    async def list(self) -> builtins.list[Skill]:
        """Return all skills."""
        return await self._do(ops.list_skills())

    async def search(self, query: str = "", tags: Sequence[str] = ()) -> builtins.list[Skill]:
        """Find skills by purpose and tags, the best first."""
        return await self._do(ops.search_skills(query, tags))

    async def delete(self, name: str) -> None:
        """Delete a skill."""
        await self._do(ops.delete_skill(name))


class AsyncStates:
    """Small JSON values by name."""

    def __init__(self, do: _AsyncDo) -> None:
        self._do = do

    async def get(self, name: str) -> State:
        """Return a value with its version."""
        return await self._do(ops.get_state(name))

    async def save(self, name: str, value: Any) -> None:
        """Save a value; None deletes it."""
        await self._do(ops.save_state(name, value))


class AsyncTools:
    """The tools of connected MCP servers."""

    def __init__(self, do: _AsyncDo) -> None:
        self._do = do

    async def search(self, query: str, *, category: str | None = None, max_results: int | None = None, detail_level: str = "summary") -> list[Tool]:
        """Find tools by what they do, the best first."""
        return await self._do(ops.search_tools(query, category, max_results, detail_level))

    async def select(self, task: str, *, threshold: float | None = None, top_k: int | None = None) -> Selection:
        """Select the few tools that a task needs. It waits for servers that are starting."""
        return await self._do(ops.select_tools(task, threshold, top_k))

    async def describe(self, name: str) -> Tool:
        """Return the definition of SERVER.TOOL; raw has its schemas."""
        return await self._do(ops.describe_tool(name))

    async def of_server(self, server: str) -> list[Tool]:
        """Return the tools of a server."""
        return await self._do(ops.server_tools(server))

    async def servers(self) -> list[dict[str, Any]]:
        """Return the connected servers and their state."""
        return await self._do(ops.servers())

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_seconds: float | None = None) -> Any:
        """Call SERVER.TOOL as code would, with policy and approvals, and return its result."""
        return await self._do(ops.call_tool(name, arguments or {}, timeout_seconds))
