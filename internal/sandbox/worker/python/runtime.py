"""Runs the executions of one sandbox.

The zygote calls `warm`, then `prepare`, once, and rehearses later; a worker may run
the rehearsal while it waits, and calls `serve` after lockdown. User
code shares the interpreter with this package and can break it; that affects only its
own sandbox. The modules here keep their own references to functions that code
commonly patches (print, json.dumps, sys.stdout).
"""

import _socket
import ast
import base64
import builtins
import collections
import datetime
import faulthandler
import json
import linecache
import math
import mmap
import os
import re
import sys
import time
import types

from . import convert, data, failure, features, files, full, help_text, later, limits, modules, output, plan, preflight, privacy, retry, servers, show, skills, steps, unavailable, waits
from .channel import Channel, frame
from .errors import QuotaError, ToolError

_VALUE = "_sandpiper_value"  # global that holds the value of the last expression
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = 0x80  # inspect.CO_COROUTINE
_MISSING = object()
_BALLAST = 4 << 20  # reserved address space, never touched; freed to report that code ran out of memory
_SOURCES = 64  # programs whose source lines a live interpreter keeps
_COMPLETED = b'{"status":"completed","result":'
_NOTHING = b'{"status":"completed"}'
_NO_MEMORY = (
    b'{"status":"raised","error":"the code ran out of memory","error_type":"MemoryError",'
    b'"traceback":"","limit":"memory"}'
)
_PROGRESS_PER_SECOND, _PROGRESS_BURST = 20, 32
_REHEARSAL = ("1+1", "x = [1.5, {'a': None}]\nprint(x, file=out)\nresult = x")
FAILURES = ("1/0", "await")

_dumps = json.JSONEncoder(separators=(",", ":")).encode
_loads = json.JSONDecoder().decode
_exit, _clock = os._exit, time.monotonic
_settrace, _setprofile = sys.settrace, sys.setprofile
_getrecursionlimit, _setrecursionlimit = sys.getrecursionlimit, sys.setrecursionlimit


def warm():
    """Adjust the imported modules to the sandbox, before forking; return the rehearsal for workers."""
    later.install()
    unavailable.install()
    for name in ("exit", "quit"):  # defined by site, which is not imported
        if not hasattr(builtins, name):
            setattr(builtins, name, _leaver(name))
    sys.dont_write_bytecode = True
    faulthandler.enable(file=2)
    return Rehearsal()


def prepare(workspace="/workspace"):
    """Return the interpreter that `serve` uses, installed but without a channel.

    The zygote calls it before it forks, so that workers do not. It contains nothing
    of a tenant. Until `serve`, the streams write to descriptors 1 and 2.
    """
    interpreter = _Interpreter(Channel(), workspace)
    interpreter.install()
    os.register_at_fork(after_in_child=interpreter.channel.forked)
    return interpreter


def serve(interpreter, fd):
    """Run the executions that arrive on fd until it closes, then exit."""
    interpreter.channel.fd = fd
    sys.path.append(interpreter.files.workspace)
    try:
        while True:
            interpreter.execute()
    except BaseException as e:
        os.write(2, f"sandpiper: the runtime failed: {type(e).__name__}: {e}\n".encode(errors="replace"))
        _exit(70)


class Rehearsal:
    """A few small programs, run to warm caches for the first execution; their output is discarded."""

    def __init__(self):
        self._channel = Channel()
        self._interpreter = _Interpreter(self._channel, "/")
        stdout, stderr = self._interpreter.stdout, self._interpreter.stderr
        self._interpreter.globals.update(print=output.printer(stdout, stderr), out=stdout)

    def run(self, programs=_REHEARSAL):
        """Run programs over a real channel, since CPython specializes code for the types that it meets (PEP 659).

        A worker omits the failing programs: they would cost it half a megabyte of memory.
        """
        ours, daemons = _socket.socketpair()
        self._channel.fd = ours.fileno()
        for program in programs:
            request = {"id": "", "code": program, "vars": {"x": 1}, "result_bytes": 1 << 20}
            daemons.send(frame(b"X", 1, _dumps(request).encode()))
            self._interpreter.execute()
        self._channel.fd = -1
        ours.close(), daemons.close()
        for name in [n for n in linecache.cache if n.startswith("<code")]:
            del linecache.cache[name]
        self._interpreter._drop_ballast()


def _ballast():
    """Return reserved address space, or None. It uses no memory."""
    try:
        return mmap.mmap(-1, _BALLAST, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return None


def _leaver(name):
    def leave(code=None):
        raise SystemExit(code)

    leave.__name__ = leave.__qualname__ = name
    return leave


class _Interpreter:
    """The namespace, streams and helpers that executions of one sandbox share."""

    def __init__(self, channel, workspace):
        self.channel = channel
        self.stdout = output.Stream(channel, b"O", 1, "<stdout>")
        self.stderr = output.Stream(channel, b"E", 2, "<stderr>")
        self.files = files.Files(workspace)
        self.skills = skills.Skills(channel, workspace)
        self.servers = servers.Servers(channel, workspace)
        self.screen = show.Screen(channel, self.stdout, self.files.read_file)
        self.privacy = privacy.Privacy(channel)
        self.replay = None  # of the recorded executions, from the first one on
        self.steps = steps.Steps(channel, self._recorder)
        self.waits = waits.Waits(channel)
        self.retries = retry.Retries()
        self.limits = limits.Limits(channel, self.steps, self._recorder)
        self.main = types.ModuleType("__main__")
        self.globals = vars(self.main)
        self.globals["__builtins__"] = builtins
        self.ready = self._ready(workspace)
        self.globals.update(self.ready)
        self.ballast = _ballast()
        self.progressed, self.notices = 0.0, 0  # time of the last call of progress, and how many notices may be sent
        self.unsent_progress = None

    def _ready(self, workspace):
        ready = {
            "json": json, "re": re, "math": math, "statistics": later.defer("statistics"), "collections": collections,
            "datetime": datetime.datetime, "date": datetime.date, "timedelta": datetime.timedelta,
            "workspace": workspace,
            "read_file": self.files.read_file, "write_file": self.files.write_file,
            "list_files": self.files.list_files, "delete_file": self.files.delete_file,
            "save_skill": self.skills.save_skill, "load_skill": self.skills.load_skill,
            "list_skills": self.skills.list_skills, "search_skills": self.skills.search_skills,
            "step": self.steps.step, "sleep_until": self.waits.sleep_until, "sleep_for": self.waits.sleep_for, "wait_for": self.waits.wait_for,
            "time_limit": self.limits.time_limit,
            "filter_by_field": data.filter_by_field, "summarize_list": data.summarize_list,
            "aggregate_stats": data.aggregate_stats, "format_output": data.format_output,
            "progress": self.progress, "ask": self.ask, "QuotaError": QuotaError, "checkpoint": self.checkpoint, "show": self.screen.show, "display": self.screen.display, "ToolError": ToolError,
            "search_tools": self.servers.search_tools, "get_tool_definition": self.servers.get_tool_definition,
            "call_tool": self.servers.call_tool, "parallel": servers.parallel, "retry": self.retries.retry,
        }
        for module in features.MODULES:
            if hasattr(module, "names"):
                ready.update(module.names(self))
        ready["help"] = help_text.Help(ready, lambda: self.skills.guard is not None)
        return ready

    def install(self):
        """Replace __main__ and the streams, and install the packages skills and servers."""
        sys.modules["__main__"] = self.main
        show.current = self.screen
        sys.argv = [""]
        self.channel.own_threads()
        output.install(self.stdout, self.stderr)
        skills.install(self.skills, self.ready)
        modules.install(self.servers)
        full.install(self.files, self.channel)

    def progress(self, done, total=None, message=""):
        """Report progress. Calls are rate-limited, so it may be called in any loop."""
        now = _clock()
        self.notices = min(self.notices + (now - self.progressed) * _PROGRESS_PER_SECOND, _PROGRESS_BURST)
        self.progressed = now
        if self.notices < 1 and done != total:
            self.unsent_progress = done, total, message
            return
        self.notices -= 1
        self._send_progress(done, total, message)

    def _send_progress(self, done, total, message):
        self.unsent_progress = None
        for value in (done, total):
            if value is not None and not isinstance(value, (int, float)):
                raise TypeError(f"progress(done, total, message): a number is needed, got {type(value).__name__}")
        text = convert.dumps({"done": done, "total": total, "message": str(message)[:1000]}, 1 << 16)
        self.channel.send(b"N", b'{"method":"progress","args":' + text + b"}")

    def ask(self, question, schema=None):
        """Ask the person a question and return the answer, or None if they decline.

        The schema is a JSON schema of the answer: of a string (the default), number, boolean or enum,
        or of an object of those. The clock of the execution stops until the answer.
        """
        if not isinstance(question, str):
            raise TypeError(f"ask(question, schema): the question must be text, got {type(question).__name__}")
        args = {"question": question, "schema": _loads(convert.dumps(schema, 1 << 16).decode())}
        return self.channel.call("ask", args)["value"]

    def checkpoint(self, step, context=None):
        """Record a step in the session's log; it is on disk when this returns."""
        if isinstance(step, bool) or not isinstance(step, (int, float, str)):
            raise TypeError(f"checkpoint(step, context): step must be a number or a string, got {type(step).__name__}")
        about = _loads(convert.dumps(context, 1 << 20).decode())
        self.channel.call("checkpoint", {"step": step, "context": about})

    # --- one execution

    def execute(self):
        """Wait for code and run it."""
        number, payload = self.channel.next_execution()
        self.channel.begin(number)
        self.screen.begin()
        self.unsent_progress = None
        self.stdout.forget()
        self.skills.begin()
        modules.forget()
        payload = [payload]
        parts = self._outcome(number, payload)
        if self.replay is not None:
            self.replay.end()
        if self.channel.fd < 0:  # a forked child returned to the runtime
            _exit(0)
        self._end(parts)

    def _outcome(self, number, payload):
        """Run the code in payload, a list that is emptied; return the parts of the D payload."""
        try:
            try:
                request = _loads(payload.pop().decode())
                value = self._run(request, number)
                if self.unsent_progress is not None:
                    self._send_progress(*self.unsent_progress)
            finally:
                _settrace(None)  # before anything that could be traced
                _setprofile(None)
                if _getrecursionlimit() < 1000:
                    _setrecursionlimit(1000)
            value = self.screen.result(value, self._table_file(request))
            return self._completed(value, request["result_bytes"])
        except BaseException as e:
            if self.channel.fd < 0:
                _leave_child(e)
            return self._failed(e)

    def _table_file(self, request):
        """Return the file for the complete data of a table, "" if tables are returned as rows."""
        if "tables" not in request or self.files.dry is not None:
            return ""
        return f"{self.files.workspace}/.results/{request['id']}"

    def _completed(self, value, limit):
        if value is _MISSING:
            return (_NOTHING,)
        try:
            body, nulls = convert.counted(value, limit)
        except convert.TooLarge as e:
            return (_dumps(_too_large(e)).encode(),)
        if nulls:
            self.stderr.write(f"NaN and infinity are null in the result ({nulls} of them): JSON has no such numbers\n")
        if len(body) < 4096:
            return (_COMPLETED + body + b"}",)
        return (_COMPLETED, body, b"}")

    def _end(self, parts):
        try:
            self.stdout.finish_line()
            self.channel.end(*parts)
        except MemoryError:
            self._drop_ballast()
            self.channel.end(_NO_MEMORY)
        self.stdout.forget()
        if self.ballast is None:
            self.ballast = _ballast()

    def _run(self, request, number):
        """Return the value of the code, or _MISSING."""
        filename = "<code>" if number == 1 else f"<code {number}>"
        self.steps.begin("seed" in request)
        if "seed" in request:
            later.import_all()  # since an import can read the time, which a replay would not, or the reverse
            self._recorder().begin(base64.b64decode(request.pop("seed")), request.pop("clock", ()))
            self.channel.readings = self.replay.unsent
        self._set_dry("dry" in request)
        guard = self._guard(request)
        g, new = self.globals, request.pop("vars")
        if "privacy" in request:
            self._offer_privacy()
        unavailable.requests = None
        if "network" in request:
            unavailable.requests = getattr(features, request["network"]).requests(self.servers)
            self._offer(unavailable.requests.names())
        passes = [privacy.Tokens(request.pop("tokens"), request.pop("numbers", ())).restore_constants] if "tokens" in request else []
        if guard:
            passes.append(lambda tree: guard.check(tree, g.keys() | new.keys()))
        if "check" in request:
            ours = "call_tool" not in new and g.get("call_tool") is self.ready["call_tool"]
            passes.append(lambda tree: preflight.check(tree, self.channel, ours))
        code = _compile(request["code"].removeprefix("\ufeff"), filename, passes, self.stderr.write)
        _forget_sources(number)
        g.update(new)
        names = guard.enter(g) if guard else vars(builtins)
        # Only a `result` that this execution assigns is its result. An older one is
        # moved to the builtins, where the code can still read it.
        old = g.pop("result", _MISSING)
        if old is not _MISSING:
            names["result"] = old
        try:
            if code.co_flags & _COROUTINE:
                import asyncio

                asyncio.run(eval(code, g))
            else:
                exec(code, g)
        except SystemExit as e:
            if e.code not in (None, 0):
                raise
        finally:
            last = g.pop(_VALUE, None)
            value = g.get("result", _MISSING)
            if old is not _MISSING:
                names.pop("result", None)
                g.setdefault("result", old)
        if value is _MISSING and last is not None:
            value = last
        return value

    def _recorder(self):
        """Return what repeats random numbers and the time. Its modules are imported on first use."""
        if self.replay is None:
            from . import replay

            self.replay = replay.Replay()
        return self.replay

    def _set_dry(self, dry):
        """Enable or disable the dry run: writes are kept in memory, calls may be planned."""
        self.servers.dry = self.skills.dry = dry
        self.files.dry = {} if dry else None
        plan.begin(self.servers.plan_ends)

    def _guard(self, request):
        """Return the guard that limits the code, or None.

        It stays in force until other code runs: converting a result to JSON can call methods
        of code that it limits.
        """
        if "restriction" not in request:
            if self.skills.guard is not None:
                self.skills.guard.leave(self.globals)
                self.skills.guard = None
        elif self.skills.guard is None:
            self.skills.guard = getattr(features, request["restriction"]).guard(self.files.workspace)
        return self.skills.guard

    def _offer_privacy(self):
        self._offer({"tokenize_pii": self.privacy.tokenize_pii, "detokenize_pii": self.privacy.detokenize_pii})

    def _offer(self, helpers):
        """Add helpers to the globals, to skills and to help(), once."""
        if not helpers.keys() <= self.ready.keys():
            self.ready.update(helpers)
            self.globals.update(helpers)

    def _drop_ballast(self):
        if self.ballast is not None:
            self.ballast.close()
            self.ballast = None

    def _failed(self, exc):
        """Return the D payload for an exception, even when no memory is left."""
        try:
            if isinstance(exc, MemoryError):
                self._drop_ballast()
                failure.clear_frames(exc.__traceback__)
            return (_dumps(failure.describe(exc)).encode(),)
        except MemoryError:
            self._drop_ballast()
            return (_NO_MEMORY,)
        except BaseException:
            return (_dumps({"status": "raised", "error": "the code failed", "error_type": failure.type_name(exc)}).encode(),)


def _leave_child(exc):
    """Exit a forked child that raised an exception into the runtime."""
    if isinstance(exc, SystemExit) and (exc.code is None or isinstance(exc.code, int)):
        _exit((exc.code or 0) & 255)
    os.write(2, failure.stack_text(exc).encode(errors="replace"))
    _exit(1)


def _parse(source, filename, note):
    """Return the syntax tree of source, which may be of a notebook; note is called with what was omitted."""
    try:
        return compile(source, filename, "exec", _AWAIT | ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as e:
        from . import notebook

        converted = notebook.converted(source, e)
        if converted is None or converted[0] == source:
            raise
    if converted[1]:
        note(converted[1] + "\n")
    return _parse(converted[0], filename, note)


def _compile(source, filename, passes=(), note=lambda text: None):
    """Compile code so that it leaves the value of a last expression in _VALUE; each pass may change or reject its tree."""
    skills.remember(filename, source)
    try:
        tree = _parse(source, filename, note)
        for run_pass in passes:
            run_pass(tree)
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body[-1]
            target = ast.copy_location(ast.Name(_VALUE, ast.Store()), last)
            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
        return compile(tree, filename, "exec", _AWAIT, dont_inherit=True)
    except (MemoryError, RecursionError):
        raise SyntaxError("the code is nested too deeply to compile") from None


def _forget_sources(number):
    linecache.cache.pop(f"<code {number - _SOURCES}>", None)


def _too_large(e):
    return {
        "status": "raised",
        "error": f"the result is {e}: write it to a file with write_file and return a summary",
        "error_type": "ResultTooLarge",
        "traceback": "",
        "limit": "result_size",
    }
