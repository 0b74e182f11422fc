"""The exceptions of the client."""

from __future__ import annotations


class SandpiperError(Exception):
    """The base of all exceptions of this package.

    message says what was wrong; hint, which may be empty, what to do.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class BinaryNotFound(SandpiperError):
    """There is no program sandpiper to start."""


class ServerUnavailable(SandpiperError):
    """The server could not be started or reached, has ended, or refuses all requests now."""


class RequestTimeout(SandpiperError, TimeoutError):
    """The server did not answer in time. The request was cancelled."""


class AccessDenied(SandpiperError):
    """The server refused the token."""


class UnsupportedError(SandpiperError):
    """The server does not offer the operation."""


class RequestError(SandpiperError):
    """The server refused a request: its arguments, a quota, a name that does not exist."""
