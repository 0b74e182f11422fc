"""The configuration of sandpiper.compat."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import EllipsisType
from typing import Any

from ._settings import read_settings


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
            raise ValueError("allow_network_access is true, which a program cannot set here: list hosts under network: {allow: …} in sandpiper.yaml, and call fetch(url); or connect an MCP server")


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


def configured(value: ExecutionConfig | EllipsisType) -> ExecutionConfig:
    return load_config() if isinstance(value, EllipsisType) else value
