"""The classes of the framework code-execution-mcp (AgentKernel), on top of Sandpiper.

A program of that framework runs after its imports are changed:

    from sandpiper.compat import AgentHelper, FilesystemHelper, SandboxExecutor, load_config

workspace_dir names a customer: the data of ./workspaces/user_12345 is that of the tenant
user_12345 in the data directory ./workspaces/.sandpiper. The directory itself is not used;
code sees the customer's files as /workspace, and FilesystemHelper reads and writes them.
Tools are those of the MCP servers in Sandpiper's configuration. Objects with the same
workspace share one server process, which ends with the last of them.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path, PurePosixPath
from types import EllipsisType
from typing import Any, NamedTuple

from ._client import Sandpiper
from ._errors import RequestError, SandpiperError
from ._results import Result
from ._settings import read_settings

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


@dataclass
class GuardrailConfig:
    """Guardrails of the server; None leaves a setting to the server's configuration."""

    enabled: bool | None = None
    strict_mode: bool | None = None
    security_checks: bool | None = None
    content_filtering: bool | None = None
    privacy_protection: bool | None = None
    pii_detection: bool | None = None
    tokenization: bool | None = None
    max_execution_time: int | None = None
    max_memory_mb: int | None = None

    def model_copy(self) -> GuardrailConfig:
        return replace(self)

    def _env(self) -> dict[str, str]:
        return {f"SANDPIPER_GUARDRAILS_{name.upper()}": str(value).lower() for name, value in vars(self).items() if value is not None}


@dataclass
class ExecutionConfig:
    """Where code runs. sandbox_type and sandbox_image are accepted, and have no effect."""

    workspace_dir: str = "./workspace"
    servers_dir: str = "./servers"
    skills_dir: str = "./skills"
    sandbox_type: str = "microsandbox"
    sandbox_image: str = "python"
    allow_network_access: bool = False
    guardrails: GuardrailConfig = field(default_factory=GuardrailConfig)

    def __post_init__(self) -> None:
        if self.allow_network_access:
            raise ValueError("allow_network_access is true; code in Sandpiper has no network: connect an MCP server, and call its tools")


@dataclass
class Config(ExecutionConfig):
    """What load_config returns: an ExecutionConfig, which is also its own section execution."""

    optimizations: Any = None  # the next three have no effect
    llm: Any = None
    mcp_servers: list[Any] = field(default_factory=list)

    @property
    def execution(self) -> Config:
        return self


def load_config(config_path: str | os.PathLike[str] | None = None) -> Config:
    """Read execution and guardrails of config_path, or only execution of ./config.yaml if it
    exists; and WORKSPACE_DIR, SERVERS_DIR and SKILLS_DIR of the environment.

    Everything else, such as the MCP servers, the server reads itself: your own configuration, the
    file named in SANDPIPER_CONFIG instead, and ./config.yaml once you have run sandpiper trust.
    """
    path = Path(config_path) if config_path is not None else Path("config.yaml")
    sections = read_settings(path) if config_path is not None or path.exists() else {}
    execution = sections.get("execution", {})
    # A file that happens to be here may not weaken guardrails; the server reads it if it is trusted.
    guardrails = sections.get("guardrails", {}) if config_path is not None else {}
    for name in ("workspace_dir", "servers_dir", "skills_dir"):
        if value := os.environ.get(name.upper()):
            execution.setdefault(name, value)
    known = ExecutionConfig.__dataclass_fields__.keys() - {"guardrails"}
    return Config(
        **{k: v for k, v in execution.items() if k in known},
        guardrails=GuardrailConfig(**{k: v for k, v in guardrails.items() if k in GuardrailConfig.__dataclass_fields__}),
    )


_clients: weakref.WeakValueDictionary[Any, Sandpiper] = weakref.WeakValueDictionary()
_clients_lock = threading.Lock()


def _client(config: ExecutionConfig) -> Sandpiper:
    """Return the client of a workspace. Different directories never share one."""
    if ".." in PurePosixPath(str(config.workspace_dir).replace("\\", "/")).parts:
        raise ValueError(f"workspace_dir is {config.workspace_dir!r}; it must not contain '..', which could name the workspace of another customer")
    path = Path(config.workspace_dir).absolute()
    if not path.name:
        raise ValueError(f"workspace_dir is {config.workspace_dir!r}; its last part names the customer")
    env = config.guardrails._env()
    for name, directory in (("SERVERS_DIR", config.servers_dir), ("SKILLS_DIR", config.skills_dir)):
        if Path(directory).is_dir():
            env[name] = str(Path(directory).absolute())
    key = (path, tuple(sorted(env.items())))
    with _clients_lock:
        client = _clients.get(key)
        if client is None:
            client = Sandpiper(data_dir=path.parent / ".sandpiper", tenant=path.name, env=env)
            _clients[key] = client
        return client


def _configured(value: ExecutionConfig | EllipsisType) -> ExecutionConfig:
    return load_config() if isinstance(value, EllipsisType) else value


class ExecutionResult(Enum):
    SUCCESS = "success"
    FAILURE = "failure"
    BLOCKED = "blocked"  # refused by a guardrail, or it waits for a person
    TIMEOUT = "timeout"


class Execution(NamedTuple):
    """What execute returns: result, output, error = executor.execute(code)."""

    result: ExecutionResult
    output: str | None
    error: str | None


def _execution(r: Result) -> Execution:
    if r.success:
        text = r.output
        if not text and r.result is not None:
            text = r.result if isinstance(r.result, str) else json.dumps(r.result, ensure_ascii=False)
        return Execution(ExecutionResult.SUCCESS, text, None)
    status = ExecutionResult.FAILURE
    if r.error_type == "timeout":
        status = ExecutionResult.TIMEOUT
    elif r.suspended or (r.error_type == "guardrail" and r.raw.get("error_source") == "sandpiper"):
        status = ExecutionResult.BLOCKED
    error = r.traceback or f"{r.error_type or 'error'}: {r.error}" + (f"\nhint: {r.hint}" if r.hint else "")
    if r.suspended:
        error = "\n".join([*(q.question for q in r.questions), f"sandpiper approvals list shows what waits; execution {r.execution_id}"])
    return Execution(status, r.output or None, error)


class SandboxExecutor:
    """Executes code for the customer of a workspace."""

    def __init__(
        self,
        execution_config: ExecutionConfig | EllipsisType = ...,
        guardrail_config: GuardrailConfig | None = None,
        optimization_config: Any = None,
    ) -> None:
        config = _configured(execution_config)
        self.execution_config = config if guardrail_config is None else replace(config, guardrails=guardrail_config)
        self.guardrail_config = self.execution_config.guardrails
        self.client = _client(self.execution_config)

    def execute(self, code: str, context: Mapping[str, Any] | None = None, task_description: str | None = None) -> Execution:
        """Run code. The keys of context become variables. task_description is for the reader of
        your program."""
        try:
            return _execution(self.client.execute(code, context_vars=context, check=False))
        except RequestError as e:
            return Execution(ExecutionResult.FAILURE, None, str(e))

    def close(self) -> None:
        """End the server process, also for other objects of the same workspace."""
        self.client.close()


class FilesystemHelper:
    """Finds tools, and reads and writes the workspace and skills of a customer."""

    def __init__(
        self,
        workspace_dir: str | EllipsisType = ...,
        servers_dir: str | None = None,
        skills_dir: str | None = None,
    ) -> None:
        config: ExecutionConfig = load_config()
        config = replace(
            config,
            workspace_dir=config.workspace_dir if isinstance(workspace_dir, EllipsisType) else str(workspace_dir),
            servers_dir=servers_dir or config.servers_dir,
            skills_dir=skills_dir or config.skills_dir,
        )
        self.workspace_dir, self.servers_dir, self.skills_dir = map(Path, (config.workspace_dir, config.servers_dir, config.skills_dir))
        self.client = _client(config)

    def list_servers(self) -> list[str]:
        return sorted(str(s["name"]) for s in self.client.tools.servers())

    def list_tools(self, server_name: str) -> list[str]:
        return sorted(t.tool for t in self.client.tools.of_server(server_name))

    def read_tool_file(self, server_name: str, tool_name: str) -> str | None:
        """Return the module of a tool."""
        path = f"/workspace/servers/{server_name}/{tool_name}.py"
        code = "from pathlib import Path\nresult = Path(path).read_text() if Path(path).is_file() else None"
        value: str | None = self.client.execute(code, context_vars={"path": path}).result
        return value

    def save_skill(self, skill_name: str, code: str, description: str | None = None) -> str:
        self.client.skills.save(skill_name, code, description or "")
        return f"/workspace/skills/{skill_name}.py"

    def read_skill(self, skill_name: str) -> str | None:
        return next((self.client.skills.load(s.name).code for s in self.client.skills.list() if s.name == skill_name), None)

    def list_skills(self) -> list[str]:
        return sorted(s.name for s in self.client.skills.list())

    def save_text(self, filename: str, content: str) -> str:
        self.client.files.write(filename, content)
        return f"/workspace/{filename}"

    def load_text(self, filename: str) -> str:
        self._must_exist(filename)
        return self.client.files.read_text(filename)

    def save_json(self, filename: str, data: Any) -> str:
        return self.save_text(filename, json.dumps(data, indent=2))

    def load_json(self, filename: str) -> Any:
        return json.loads(self.load_text(filename))

    def save_csv(self, filename: str, data: Sequence[Mapping[str, Any]]) -> str:
        text = io.StringIO(newline="")
        if data:
            writer = csv.DictWriter(text, fieldnames=list(data[0]))
            writer.writeheader()
            writer.writerows(data)
        return self.save_text(filename, text.getvalue())

    def load_csv(self, filename: str) -> list[dict[str, Any]]:
        return list(csv.DictReader(io.StringIO(self.load_text(filename), newline="")))

    def file_exists(self, filename: str) -> bool:
        return str(PurePosixPath(filename)) in self.client.files.list()

    def delete_file(self, filename: str) -> None:
        if self.file_exists(filename):
            self.client.files.delete(filename)

    def list_workspace_files(self) -> list[str]:
        return sorted(name for name in self.client.files.list() if "/" not in name)

    def _must_exist(self, filename: str) -> None:
        if not self.file_exists(filename):
            raise FileNotFoundError(f"File not found: {filename}")


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
            r = self.executor.client.task(task_description, check=False)
        except SandpiperError as e:
            done = Execution(ExecutionResult.FAILURE, None, str(e))
        else:
            done = _execution(r)
            if verbose:
                print(f"{len(r.tools)} of {r.available} tools, {100 * r.share:.0f} %: {', '.join(r.tools)}\n{r.code}")
        if verbose:
            _show(done)
        return done


def _show(done: Execution) -> None:
    print(f"{done.result.value}: {done.error or done.output or ''}")
