"""Converts the errors in the daemon's answers to exceptions."""

import builtins
from _contextvars import ContextVar

_watches = ContextVar("watches", default=())  # lists of ToolError.watch


_UNREPEATABLE = ("unknown", "made")  # outcomes


class _Watch:
    def __enter__(self):
        found = []
        self._token = _watches.set((*_watches.get(), found))
        return found

    def __exit__(self, *_):
        _watches.reset(self._token)


def note(error):
    """Add an error to the lists of ToolError.watch."""
    for found in _watches.get():
        found.append(error)


class ToolError(Exception):
    """A tool of a connected server failed; the message is the tool's own text.

    outcome: "failed", "unknown" (it may have taken effect: do not repeat it), "not_made" (nothing
    was sent) or "made" (only its answer was withheld); retryable: the same call may be made again;
    status: of HTTP, or None; retry_after: seconds that the server asks to wait, or None.
    """

    cancelled = False  # the code that made the call stopped waiting for it

    def __init__(self, message="", server=None, tool=None, data=None, outcome="failed", retryable=False, status=None, retry_after=None):
        super().__init__(message)
        self.server = server
        self.tool = tool
        self.data = data
        self.outcome = outcome
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        if outcome in _UNREPEATABLE:
            note(self)

    def as_import_error(self):
        """Return the same error as an ImportError too: for code that handles that a server is missing."""
        return _Unavailable(str(self), self.server, self.tool, self.data, self.outcome, self.retryable, self.status, self.retry_after)

    @staticmethod
    def watch():
        """Return a context manager with the list of the errors of calls in it that may have taken effect.

        They are in the list also if code has caught them.
        """
        return _Watch()

    @staticmethod
    def may_have_effect(error):
        """Report whether a call that failed with an error, or led to it, may have taken effect."""
        seen, left = set(), [error]
        while left:
            e = left.pop()
            if e is None or id(e) in seen:
                continue
            if getattr(e, "outcome", None) in _UNREPEATABLE:
                return True
            seen.add(id(e))
            left += [e.__cause__, e.__context__, *getattr(e, "exceptions", ())]
        return False

    def __reduce__(self):  # process pools pickle it and look it up in the module that it names
        return _tool_error, (str(self), self.server, self.tool, self.data, self.outcome, self.retryable, self.status, self.retry_after)


def _tool_error(*fields):
    return ToolError(*fields)

class _Unavailable(ToolError, ImportError):
    """The server of an import has not listed its tools."""


_Unavailable.__name__ = _Unavailable.__qualname__ = "ToolError"


class QuotaError(RuntimeError):
    """A quota or budget is used up; quota is its name."""

    def __init__(self, message="", quota=None):
        super().__init__(message)
        self.quota = quota

    def __reduce__(self):  # like that of ToolError
        return _quota_error, (str(self), self.quota)


def _quota_error(*fields):
    return QuotaError(*fields)


class Refused(Exception):
    """The code was refused before it ran. Its class is the error type of the outcome."""


# User code sees them as builtins, so tracebacks show them without a module.
ToolError.__module__ = QuotaError.__module__ = "builtins"

_BUILT_IN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


def from_answer(error):
    """Return the exception for the error of an answer."""
    name, message = error.get("type"), error.get("message", "")
    if name == "ToolError":
        data = error.get("data") or {}
        failed = ToolError(
            message, data.get("server") or None, data.get("tool") or None, data.get("data"),
            data.get("outcome", "failed"), data.get("retryable", False), data.get("status"), data.get("retry_after"),
        )
        failed.cancelled = data.get("cancelled", False)
        return failed
    if name == "QuotaError":
        return QuotaError(message, (error.get("data") or {}).get("quota"))
    try:
        return _BUILT_IN.get(name, RuntimeError)(message)
    except TypeError:  # UnicodeDecodeError and others need more than a message
        return RuntimeError(message)
