"""The classes of sandpiper.compat that run code, and read and write files."""

from __future__ import annotations

import csv
import io
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path, PurePosixPath
from types import EllipsisType
from typing import Any, NamedTuple

from ._compat_config import ExecutionConfig, GuardrailConfig, configured, load_config
from ._compat_share import Sharing
from ._errors import RequestError
from ._results import Result


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


def read_execution(r: Result) -> Execution:
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


class SandboxExecutor(Sharing):
    """Executes code for the customer of a workspace."""

    def __init__(
        self,
        execution_config: ExecutionConfig | EllipsisType = ...,
        guardrail_config: GuardrailConfig | None = None,
        optimization_config: Any = None,
    ) -> None:
        config = configured(execution_config)
        self.execution_config = config if guardrail_config is None else replace(config, guardrails=guardrail_config)
        self.guardrail_config = self.execution_config.guardrails
        self._share(self.execution_config)
        self.session_id = f"session_{time.strftime('%Y%m%d_%H%M%S')}_{secrets.token_hex(4)}"

    def execute(self, code: str, context: Mapping[str, Any] | None = None, task_description: str | None = None) -> Execution:
        """Run code. The keys of context become variables.

        With task_description, the code is a task of the log of this executor's session,
        and has the variables of the earlier ones.
        """
        session = self.session_id if task_description else None
        try:
            return read_execution(
                self.client.execute(code, context_vars=context, session_id=session, task_description=task_description or None, check=False)
            )
        except RequestError as e:
            return Execution(ExecutionResult.FAILURE, None, str(e))


class FilesystemHelper(Sharing):
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
        self._share(config)

    def list_servers(self) -> list[str]:
        """Return the connected servers and the packages of handwritten modules."""
        handwritten = self.client.tools.search("", category="handwritten", max_results=100, detail_level="name")
        return sorted({str(s["name"]) for s in self.client.tools.servers()} | {t.server for t in handwritten})

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
