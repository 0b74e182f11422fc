"""The tools of connected servers: the package `servers`, and calls by name.

The modules of the package are generated files, mounted at /workspace/servers and
shared by all tenants with the same servers. They call the daemon through the module
`_sandpiper`, which exists only in sys.modules.
"""

import base64
import json
import os
import sys
from _contextvars import ContextVar

from . import channel, plan, show
from .errors import ToolError

_ASYNC = 0x80 | 0x200  # inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_THREADS = 32


_workspace = ""  # its real path


class _Absent:
    """The default of an argument for which None is a value of its own: it is not sent."""

    def __repr__(self):
        return "..."

    def __reduce__(self):
        return _the_absent, ()


absent = _Absent()


def _the_absent():
    return absent


class Content:
    """A part of a tool's answer that is not JSON: an image, audio, a file, or a link to one."""

    def __init__(self, part):
        show.received = True
        self.kind = part["kind"]
        self.mime_type = part.get("mime")
        self.uri = part.get("uri")
        self.name = part.get("name")
        self.text = part.get("text")
        self.data = base64.b64decode(part["data"]) if "data" in part else None

    def __bytes__(self):
        return self.data or b""

    def __len__(self):
        return len(self.data or b"")

    def __repr__(self):
        what = ", ".join(str(x) for x in (self.mime_type, self.name or self.uri, self.data and f"{len(self.data)} bytes") if x)
        return f"<{self.kind}: {what}>"

    def _repr_png_(self):
        return self.data if self.mime_type == "image/png" else None

    def _repr_jpeg_(self):
        return self.data if self.kind == "image" else None


class Structured(dict):
    """A tool's structured answer with additional parts that are not JSON, in `parts`."""

    parts = ()


class LargeAnswer(dict):
    """An answer that is too large for memory: its file, its size and a preview.

    path: the file, JSON or text; bytes: its size; preview: type, keys, counts and first rows.
    load() reads the whole file; open() returns it as a text file, to read it in parts.
    """

    path = property(lambda self: self["path"])
    bytes = property(lambda self: self["bytes"])
    preview = property(lambda self: self["preview"])

    def open(self):
        """Open the file for reading as text."""
        path = os.path.realpath(self.path)  # restricted code may change it, and reads the workspace only
        if not path.startswith(_workspace + "/"):
            raise PermissionError(f"Access denied: path outside workspace: {self.path!r}")
        return open(path, encoding="utf-8")

    def load(self):
        """Return the decoded JSON of the whole file, or its text; it needs several times its size in memory."""
        with self.open() as f:
            return json.load(f) if self["json"] else f.read()

    def __missing__(self, key):
        raise KeyError(f"{key!r}: the answer has {self.bytes} bytes and is in the file {self.path}: read it in parts, or use .load()[{key!r}]")


for _kind in (Content, Structured, LargeAnswer):
    _kind.__module__ = "servers"


class Servers:
    def __init__(self, channel, workspace):
        global _workspace
        _workspace = os.path.realpath(workspace)
        self._channel = channel
        self.folder = os.path.join(workspace, "servers")
        self.in_thread = _InThread(channel)
        self.dry = False  # in a dry run, calls may be planned and return placeholders

    def call(self, server, tool, required, optional=None):
        """Call a tool, without the arguments that are absent and the optional ones that are None."""
        if self._channel.fd < 0:
            raise ToolError("tools can be called only in the process that runs the code, not in a forked one", server, tool, outcome="not_made")
        args = {name: value for name, value in required.items() if value is not absent}
        for name, value in (optional or {}).items():
            if value is not None:
                args[name] = value
        try:
            answer = self._channel.call("call_tool", self._request(server, tool, args))
        except (TypeError, ValueError, RecursionError) as e:
            wrong = _unsendable(args) or str(e)
        else:
            if "planned" in answer:
                return plan.placeholder(answer["planned"], f"{server}.{tool}", answer.get("schema"))
            return _value(answer)
        raise ToolError(wrong, server, tool, outcome="not_made")

    def _request(self, server, tool, args):
        request = {"server": server, "tool": tool, "args": args}
        if self.dry:
            request["args"], references = plan.lift(args)
            if references:
                request["references"] = references
        return request

    def plan_ends(self, call, line, why):
        self._channel.call("plan_ends", {"call": call, "line": line, "why": why})

    def await_tools(self, server):
        """Wait until a server has listed its tools for the first time; raise ToolError if it cannot."""
        try:
            self._channel.call("await_tools", {"server": server})
        except ToolError as e:
            raise e.as_import_error() from None

    def why_missing(self, server, name=""):
        """Return why a server has no module, or a tool no function: unknown, disabled or quarantined."""
        try:
            return self._channel.call("why_missing", {"server": server, "name": name})
        except ValueError:  # the daemon serves no calls about tools to this code
            return ""

    def call_tool(self, server, tool, /, **args):
        """Call a tool by server and tool name, and return its answer."""
        for what, name in (("server", server), ("tool", tool)):
            if not isinstance(name, str):
                raise TypeError(f"call_tool(server, tool, **args): {what} must be text, got {type(name).__name__}")
        return self.call(server, tool, args)

    def call_mcp_tool(self, server_name, tool_name=None, arguments=None):
        """Call a tool through the old interface: by two names or by "server__tool"; awaitable in a coroutine."""
        if not isinstance(tool_name, str):
            arguments = tool_name if arguments is None else arguments
            server_name, _, tool_name = server_name.partition("__")
        if sys._getframe(1).f_code.co_flags & _ASYNC:
            return self.in_thread(self.call, server_name, tool_name, arguments or {})
        return self.call(server_name, tool_name, arguments or {})

    def search_tools(self, query="", category=None, detail_level="summary", max_results=10):
        """Search for tools by purpose, or by each purpose in a list; returns the answer of the MCP tool search_tools, which has detail_level "brief" by default."""
        args = {"query": query if isinstance(query, str) else list(query), "category": category or "", "detail_level": detail_level, "max_results": max_results}
        return self._channel.call("search_tools", args)

    def get_tool_definition(self, tool_name, category=None):
        """Return the definition of a tool, or of each tool in a list: schemas, import, signature, example."""
        return self._channel.call("get_tool_definition", {"tool_name": tool_name, "category": category or ""})

    def list_resources(self, server):
        return self._channel.call("list_resources", {"server": server})

    def read_resource(self, server, uri):
        return _value(self._channel.call("read_resource", {"server": server, "uri": uri}))

    def list_resource_templates(self, server):
        return self._channel.call("list_resource_templates", {"server": server})

    def list_prompts(self, server):
        return self._channel.call("list_prompts", {"server": server})

    def get_prompt(self, server, name, args):
        messages = self._channel.call("get_prompt", {"server": server, "name": name, "args": args})
        return [{"role": m["role"], "content": _part(m["part"])} for m in messages]


_awaited = ContextVar("awaited", default=None)


class _InThread:
    """Makes calls in threads for coroutines."""

    def __init__(self, channel):
        self._channel = channel
        channel.coroutine = _awaited

    async def __call__(self, function, *args, **kwargs):
        """Run a function in a thread; if the coroutine is cancelled, cancel the calls that the function makes."""
        import asyncio

        awaited = channel.Awaited()
        token = _awaited.set(awaited)
        try:
            return await asyncio.to_thread(function, *args, **kwargs)
        except asyncio.CancelledError:
            self._channel.cancel(awaited)
            raise
        except ToolError as e:
            if not e.cancelled:
                raise
            # The code is run again, and stopped waiting for this call the first time: it does so again.
            await asyncio.get_running_loop().create_future()
        finally:
            _awaited.reset(token)


def parallel(*thunks, errors="raise"):
    """Call functions without arguments at the same time, and return their values in order.

    If some raise, all are waited for and the first error, in the order given, is raised: before
    others one of a call that may have taken effect. With errors="return", an error is returned
    in the place of the value.
    """
    if errors not in ("raise", "return"):
        raise ValueError(f'parallel(*functions, errors="raise"): errors is "raise" or "return", got {errors!r:.100}')
    for t in thunks:
        if not callable(t):
            raise TypeError(f"parallel(*functions): a function is needed, got {type(t).__name__}: write lambda: f(…)")
    if errors == "return":
        thunks = [_returning(t) for t in thunks]
    if len(thunks) < 2:
        return [t() for t in thunks]
    import concurrent.futures
    from _contextvars import copy_context

    with concurrent.futures.ThreadPoolExecutor(min(_THREADS, len(thunks))) as pool:
        futures = [pool.submit(copy_context().run, t) for t in thunks]
    failed = [e for f in futures if (e := f.exception())]
    if failed:
        raise next(filter(ToolError.may_have_effect, failed), failed[0])
    return [f.result() for f in futures]


def _returning(thunk):
    """Return a function that returns the errors of another one."""

    def call():
        try:
            return thunk()
        except Exception as e:
            return e

    return call


def _unsendable(args):
    """Return the error for the first argument that cannot be encoded as JSON, or None."""
    for name, value in args.items():
        try:
            channel._dumps(value)
        except (TypeError, ValueError, RecursionError) as e:
            why = "it is nested too deeply" if isinstance(e, RecursionError) else str(e)
            return f"argument {name} cannot be sent: {why}"
    return None


def _value(answer):
    """Return the Python value of an answer."""
    if "parts" not in answer:
        return LargeAnswer(answer["file"]) if "file" in answer else answer["value"]
    parts = [_part(p) for p in answer["parts"]]
    if "structured" in answer:
        value = answer["structured"]
        if not isinstance(value, dict):
            return [value, *parts]
        value = Structured(value)
        value.parts = tuple(parts)
        return value
    return parts[0] if len(parts) == 1 else parts


def _part(part):
    return part.get("text", "") if part["kind"] == "text" else Content(part)
