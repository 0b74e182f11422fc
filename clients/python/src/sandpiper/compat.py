"""The classes of the framework code-execution-mcp (AgentKernel), on top of Sandpiper.

A program of that framework runs after its imports are changed:

    from sandpiper.compat import AgentHelper, FilesystemHelper, SandboxExecutor, load_config

workspace_dir names a customer: the data of ./workspaces/user_12345 is that of the tenant
user_12345 in the data directory ./workspaces/.sandpiper. The directory itself is not used;
code sees the customer's files as /workspace, and FilesystemHelper reads and writes them.
Tools are those of the MCP servers in Sandpiper's configuration. Objects with the same
workspace share one server process, which ends with the last of them that is closed or collected.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ._compat_config import Config, ExecutionConfig, GuardrailConfig, load_config
from ._compat_run import Execution, ExecutionResult, FilesystemHelper, SandboxExecutor, read_execution
from ._errors import SandpiperError

__all__ = [
    "AgentHelper",
    "CodeGenerator",
    "Config",
    "Execution",
    "ExecutionConfig",
    "ExecutionResult",
    "FilesystemHelper",
    "GuardrailConfig",
    "SandboxExecutor",
    "ToolSelector",
    "load_config",
]

Tools = dict[str, list[str]]  # names of tools by server


class ToolSelector:
    """Selects the tools of a task with Sandpiper's search."""

    def __init__(self, similarity_threshold: float = 0.3, top_k: int = 5, use_semantic_search: bool = True) -> None:
        self.similarity_threshold = similarity_threshold
        self.top_k = top_k
        self.use_semantic_search = use_semantic_search  # semantic search is configured in search.embeddings
        self._helper: FilesystemHelper | None = None

    def get_tool_descriptions(self, fs_helper: FilesystemHelper, discovered_servers: Tools) -> dict[tuple[str, str], str]:
        self._helper = fs_helper
        return {
            (server, t.tool): f"{server} {t.tool}: {t.description}"
            for server, names in discovered_servers.items()
            for t in fs_helper.client.tools.of_server(server)
            if t.tool in names
        }

    def select_tools(self, task_description: str, tool_descriptions: Mapping[tuple[str, str], str], use_gpu: bool = False) -> Tools:
        """Return the tools of tool_descriptions that the task needs, by server."""
        client = (self._helper or FilesystemHelper()).client
        found = client.tools.select(task_description, threshold=self.similarity_threshold, top_k=self.top_k)
        selected: Tools = {}
        for t in found.tools:
            if (t.server, t.tool) in tool_descriptions:
                selected.setdefault(t.server, []).append(t.tool)
        return selected


class CodeGenerator:
    """Puts together the code of calls that you wrote. AgentHelper.execute_task writes calls itself."""

    def __init__(self, include_error_handling: bool = True, llm_config: Any = None, tool_descriptions: Any = None) -> None:
        self.include_error_handling = include_error_handling
        self.llm_config = llm_config
        self.tool_descriptions = tool_descriptions or {}

    def generate_imports(self, required_tools: Tools) -> list[str]:
        return [f"from servers.{server} import {', '.join(tools)}" for server, tools in required_tools.items() if tools]

    def generate_usage_code(self, required_tools: Tools, task_description: str = "", task_specific_calls: Mapping[str, str] | None = None) -> list[str]:
        calls = task_specific_calls or {}
        missing = [server for server, tools in required_tools.items() if tools and server not in calls]
        if missing:
            raise ValueError(f"there is no code for {', '.join(missing)}; pass task_specific_calls, or use AgentHelper.execute_task, which writes it")
        return [calls[server] for server, tools in required_tools.items() if tools]

    def generate_complete_code(
        self,
        required_tools: Tools,
        task_description: str = "",
        task_specific_calls: Mapping[str, str] | None = None,
        header_comment: str | None = None,
        skill_listing: str | None = None,
    ) -> str:
        comment = "\n".join(f"# {line}" for line in (header_comment or task_description).splitlines())
        usage = self.generate_usage_code(required_tools, task_description, task_specific_calls)
        code = "\n\n".join(filter(None, [comment, "\n".join(self.generate_imports(required_tools)), *usage])) + "\n"
        ast.parse(code)  # calls with an error are reported before anything runs
        return code


class AgentHelper:
    """Does tasks in words."""

    def __init__(
        self,
        fs_helper: FilesystemHelper,
        executor: SandboxExecutor,
        tool_selector: ToolSelector | None = None,
        code_generator: CodeGenerator | None = None,
        optimization_config: Any = None,
        llm_config: Any = None,
    ) -> None:
        self.fs_helper = fs_helper
        self.executor = executor
        self.tool_selector = tool_selector or ToolSelector()
        self.code_generator = code_generator or CodeGenerator()

    def discover_tools(self, verbose: bool = True) -> Tools:
        """Return the names of all tools by server."""
        found = {server: self.fs_helper.list_tools(server) for server in self.fs_helper.list_servers()}
        if verbose:
            print(f"{sum(map(len, found.values()))} tools of {len(found)} servers: {', '.join(found)}")
        return found

    def select_tools_for_task(self, task_description: str, discovered_servers: Tools | None = None, verbose: bool = True) -> Tools:
        servers = self.discover_tools(verbose=False) if discovered_servers is None else discovered_servers
        selected = self.tool_selector.select_tools(task_description, self.tool_selector.get_tool_descriptions(self.fs_helper, servers))
        if verbose:
            print(f"selected {', '.join(f'{s}.{t}' for s, tools in selected.items() for t in tools) or 'no tools'}")
        return selected

    def execute_task(
        self,
        task_description: str,
        task_specific_calls: Mapping[str, str] | None = None,
        required_tools: Tools | None = None,
        header_comment: str | None = None,
        verbose: bool = True,
        context: Mapping[str, Any] | None = None,
    ) -> Execution:
        """Select tools, write code, run it and repair it: result, output, error.

        With task_specific_calls, code by server, that code runs instead of code that is written.
        """
        if task_specific_calls is None:
            return self._task(task_description, verbose)
        tools = self.select_tools_for_task(task_description, verbose=verbose) if required_tools is None else required_tools
        tools = {server: names for server, names in tools.items() if server in task_specific_calls}
        code = self.code_generator.generate_complete_code(tools, task_description, task_specific_calls, header_comment)
        if verbose:
            print(code)
        done = self.executor.execute(code, context=context, task_description=task_description)
        if verbose:
            _show(done)
        return done

    def _task(self, task_description: str, verbose: bool) -> Execution:
        try:
            r = self.executor.client.task(task_description, check=False, session_id=self.executor.session_id)
        except SandpiperError as e:
            done = Execution(ExecutionResult.FAILURE, None, str(e))
        else:
            done = read_execution(r)
            if verbose:
                print(f"{len(r.tools)} of {r.available} tools, {100 * r.share:.0f} %: {', '.join(r.tools)}\n{r.code}")
        if verbose:
            _show(done)
        return done


def _show(done: Execution) -> None:
    print(f"{done.result.value}: {done.error or done.output or ''}")
