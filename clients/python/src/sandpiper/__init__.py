"""Client of Sandpiper, which runs Python of agents in a sandbox.

Sandpiper and AsyncSandpiper start a server or connect to one, execute code, read and write
the workspace, find and call tools, and run workflows. Both can be used by several threads, or
tasks, at a time. The module sandpiper.compat has the names of another framework.

The client holds no data and makes no decision: policy, privacy and limits are those of the
server. What it returns has passed the server's privacy, as for a model.
"""

from ._areas import AsyncBackground, AsyncSession, Background, Session
from ._async_client import AsyncSandpiper
from ._client import Sandpiper
from ._errors import (
    AccessDenied,
    BinaryNotFound,
    RequestError,
    RequestTimeout,
    SandpiperError,
    ServerUnavailable,
    UnsupportedError,
)
from ._results import (
    BackgroundStatus,
    ExecutionError,
    ExecutionSuspended,
    PlannedCall,
    Question,
    Result,
    Sanitized,
    Schedule,
    Selection,
    Skill,
    State,
    TaskResult,
    Tool,
    Workflow,
)

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
    "Sanitized",
    "Schedule",
    "Selection",
    "ServerUnavailable",
    "Session",
    "Skill",
    "State",
    "TaskResult",
    "Tool",
    "UnsupportedError",
    "Workflow",
]
