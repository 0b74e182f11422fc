"""The exceptions that the daemon's answers become."""

import builtins


class ToolError(Exception):
    """A tool of a connected server failed; the text is the tool's own words."""

    def __init__(self, message="", server=None, tool=None, data=None):
        super().__init__(message)
        self.server = server
        self.tool = tool
        self.data = data

    def __reduce__(self):  # pools of processes pickle it, and look where it says that it is from
        return _tool_error, (str(self), self.server, self.tool, self.data)


def _tool_error(*fields):
    return ToolError(*fields)


# ToolError is the user's name for it, so tracebacks say it without a package.
ToolError.__module__ = "builtins"

_BUILT_IN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


def from_answer(error):
    """Return the exception that an answer's error stands for."""
    name, message = error.get("type"), error.get("message", "")
    if name == "ToolError":
        data = error.get("data") or {}
        return ToolError(message, data.get("server") or None, data.get("tool") or None, data.get("data"))
    try:
        return _BUILT_IN.get(name, RuntimeError)(message)
    except TypeError:  # UnicodeDecodeError and the like want more than a message
        return RuntimeError(message)
