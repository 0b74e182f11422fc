"""Client of Sandpiper, which runs Python of agents in a sandbox.

Sandpiper and AsyncSandpiper start a server or connect to one, and execute code, read and
write the workspace, and find and call tools. Both can be used by several threads, or
tasks, at a time. The module sandpiper.compat has the names of another framework.

The client holds no data and makes no decision: policy, privacy and limits are those of the
server. What it returns has passed the server's privacy, as for a model.
"""

from ._async_client import AsyncSandpiper, AsyncSession
from ._background import AsyncBackground, Background
from ._client import Sandpiper, Session
from ._errors import (
    AccessDenied,
    BinaryNotFound,
    ExecutionError,
    ExecutionSuspended,
    RequestError,
    RequestTimeout,
    SandpiperError,
    ServerUnavailable,
    UnsupportedError,
)
from ._results import BackgroundStatus, PlannedCall, Question, Result, Selection, Skill, State, TaskResult, Tool

__all__ = [
    "AccessDenied",
    "AsyncBackground",
    "AsyncSandpiper",
    "AsyncSession",
    "Background",
    "BackgroundStatus",
    "BinaryNotFound",
    "ExecutionError",
    "ExecutionSuspended",
    "PlannedCall",
    "Question",
    "RequestError",
    "RequestTimeout",
    "Result",
    "Sandpiper",
    "SandpiperError",
    "Selection",
    "ServerUnavailable",
    "Session",
    "Skill",
    "State",
    "TaskResult",
    "Tool",
    "UnsupportedError",
]
