"""The messages of MCP 2026-07-28, in which each request stands for itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from ._errors import RequestError, ServerUnavailable, UnsupportedError

REVISION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "sandpiper-python", "version": "0.1.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

Message = dict[str, Any]


class Connection(Protocol):
    """A way to a server. Its methods may be called by several threads at a time."""

    def submit(self, method: str, params: Mapping[str, Any]) -> Future[Message]:
        """Send a request. The future has the result of the response, or raises; cancelling it cancels the request."""

    def close(self) -> None:
        """End the connection; requests in flight fail with ServerUnavailable."""

    def leave(self) -> None:
        """Leave the connection to the parent of this process, which was forked."""


def request(number: int, method: str, params: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": _META}}


def result(response: Message) -> Message:
    """Return the result of a response, or raise its error."""
    error = response.get("error")
    if isinstance(error, dict):
        raise _error(error)
    value = response.get("result")
    if not isinstance(value, dict):
        raise ServerUnavailable("the server sent a response without a result")
    return value


def _error(error: Message) -> Exception:
    message = str(error.get("message", "the request was refused"))
    if error.get("code") == -32602 and message.startswith("there is no tool "):
        return UnsupportedError(
            message.split(";")[0] + " in the profile of this server",
            "start the server with the profile full: Sandpiper(profile=\"full\"), or profile: full in its configuration; "
            "or install a version of Sandpiper that has the tool",
        )
    if error.get("code") == -32601 or error.get("code") == -32022:
        return ServerUnavailable(f"the server does not speak MCP {REVISION}: {message}", "install a newer version of Sandpiper")
    return RequestError(message)


def answer(result: Message) -> tuple[Message, bool]:
    """Return the JSON object in the result of a tool, and whether it is an error."""
    failed = bool(result.get("isError"))
    text = next((c.get("text") for c in result.get("content") or () if c.get("type") == "text"), None)
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value, failed
    if failed:
        raise RequestError(text if isinstance(text, str) else "the request was refused")
    raise ServerUnavailable("the server's answer is not a JSON object", "check that the URL is that of a Sandpiper server")


def check_started(discovered: Message) -> None:
    """Raise ServerUnavailable for a server that only describes why it cannot start."""
    text = discovered.get("instructions")
    if isinstance(text, str) and text.startswith("Sandpiper cannot start"):
        raise ServerUnavailable("the server cannot start", text.partition("reconnect the server: ")[2])
