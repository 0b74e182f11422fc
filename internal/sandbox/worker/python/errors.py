"""Converts the errors in the daemon's answers to exceptions."""

import builtins


class ToolError(Exception):
    """A tool of a connected server failed; the message is the tool's own text."""

    def __init__(self, message="", server=None, tool=None, data=None):
        super().__init__(message)
        self.server = server
        self.tool = tool
        self.data = data

    def __reduce__(self):  # process pools pickle it and look it up in the module that it names
        return _tool_error, (str(self), self.server, self.tool, self.data)


def _tool_error(*fields):
    return ToolError(*fields)


class StateConflict(Exception):
    """A state has another version than the one that save_state was to replace."""


class FormError(ValueError):
    """A form cannot be read or filled in; .problems lists why, each with field, problem and message."""

    def __init__(self, message="", problems=()):
        super().__init__(message)
        self.problems = list(problems)

    def __reduce__(self):  # like that of ToolError
        return _form_error, (str(self), self.problems)


def _form_error(*fields):
    return FormError(*fields)


class QuotaError(RuntimeError):
    """A quota or budget is used up; quota is its name."""

    def __init__(self, message="", quota=None):
        super().__init__(message)
        self.quota = quota

    def __reduce__(self):  # like that of ToolError
        return _quota_error, (str(self), self.quota)


def _quota_error(*fields):
    return QuotaError(*fields)


class RestrictedError(Exception):
    """Restricted code used a forbidden name; the message states the name, the line and a replacement."""


class Refused(RestrictedError):
    """The code was refused before it ran."""


Refused.__name__ = "RestrictedError"


# User code sees them as builtins, so tracebacks show them without a module.
ToolError.__module__ = RestrictedError.__module__ = StateConflict.__module__ = FormError.__module__ = QuotaError.__module__ = "builtins"

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
        return ToolError(message, data.get("server") or None, data.get("tool") or None, data.get("data"))
    if name == "QuotaError":
        return QuotaError(message, (error.get("data") or {}).get("quota"))
    try:
        return _BUILT_IN.get(name, RuntimeError)(message)
    except TypeError:  # UnicodeDecodeError and others need more than a message
        return RuntimeError(message)
