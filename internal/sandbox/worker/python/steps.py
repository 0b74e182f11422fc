"""Durable steps: a function whose value is recorded, so that a resumed run does not call it again.

A step is known by its name, its number among the steps of that name, and the step that
contains it. Calls carry the number of the step that makes them: the daemon forgets them when
the step has ended, and a replay skips them. The random generators continue from a state that
depends only on the state before the step, so that code after it draws the same numbers whether
the function ran or not.
"""

import functools
from _contextvars import ContextVar
from _thread import allocate_lock

from . import channel

_VALUE_BYTES = 1 << 20
_NAME_LENGTH = 200


class _Scope:
    """The code of a step, or of an execution outside of steps."""

    __slots__ = ("counts", "lock", "number")

    def __init__(self, number):
        self.number = number  # 0 outside of steps
        self.counts = {}  # name -> number of steps so far
        self.lock = allocate_lock()

    def next(self, name):
        with self.lock:
            n = self.counts[name] = self.counts.get(name, 0) + 1
        return n


def _is_coroutine_function(fn):
    import inspect  # in the zygote, only after its first fork

    return inspect.iscoroutinefunction(fn)


class Steps:
    def __init__(self, channel, recorder):
        self._channel = channel
        self._recorder = recorder
        self._root = _Scope(0)
        self._scope = ContextVar("step", default=None)
        self._recorded = False
        channel.step = self.number
        channel.inherited = self._scope

    def begin(self, recorded):
        """Begin an execution; recorded tells whether the daemon records its steps."""
        self._root, self._recorded = _Scope(0), recorded

    def scope(self, number):
        """Let the code of a with statement, and threads that it starts, belong to the step of that number."""
        return self._scope.set(_Scope(number))

    def _current(self):
        return self._scope.get() or self._root

    def number(self):
        """Return the number of the step that runs in this thread, or 0."""
        scope = self._scope.get()
        return scope.number if scope is not None else 0

    def step(self, name, fn=None, *args, **kwargs):
        """Return fn(*args, **kwargs) as JSON, once: a resumed run returns the recorded value. Also @step.

        The value is on disk within 20 ms. A second step of the same name is another step; give the
        steps of threads different names. A step that raises is not recorded and runs again.
        """
        if fn is None:
            return self._decorate(name)
        if not isinstance(name, str):
            raise TypeError(f"step(name, fn, *args): the name must be text, got {type(name).__name__}")
        if not 0 < len(name) <= _NAME_LENGTH:
            raise ValueError(f"step(name, fn, *args): the name has {len(name)} characters, 1 to {_NAME_LENGTH} are allowed")
        if not callable(fn):
            raise TypeError(f"step({name!r}, fn, *args): fn must be a function, got {type(fn).__name__}: write step({name!r}, f, x), not step({name!r}, f(x))")
        if _is_coroutine_function(fn):
            return self._awaited(name, fn, args, kwargs)
        run = self._start(name)
        if run.known:
            return run.value
        with run:
            return run.end(fn(*args, **kwargs))

    async def _awaited(self, name, fn, args, kwargs):
        run = self._start(name)
        if run.known:
            return run.value
        with run:
            return run.end(await fn(*args, **kwargs))

    def _decorate(self, what):
        """Return the decorator @step("name"), or decorate a function."""
        if isinstance(what, str):
            return lambda fn: self._durable(what, fn)
        if callable(what):
            return self._durable(getattr(what, "__name__", "step"), what)
        raise TypeError(f"step(name, fn, *args): the name must be text, got {type(what).__name__}")

    def _durable(self, name, fn):
        if not callable(fn):
            raise TypeError(f"@step is for functions, got {type(fn).__name__}")

        @functools.wraps(fn)
        def durable(*args, **kwargs):
            return self.step(name, functools.partial(fn, *args, **kwargs))

        @functools.wraps(fn)
        async def awaited(*args, **kwargs):
            return await self._awaited(name, fn, args, kwargs)

        return awaited if _is_coroutine_function(fn) else durable

    def _start(self, name):
        recorded = self._recorded and self._channel.fd >= 0
        return _Run(self, name, recorded)


class _Run:
    """One run of a step; a context in which its function runs."""

    __slots__ = ("_before", "_key", "_name", "_recorded", "_steps", "_token", "known", "scope", "value")

    def __init__(self, steps, name, recorded):
        self._steps, self._name, self._recorded = steps, name, recorded
        self.known, self.scope = False, None
        if not recorded:
            return
        parent = steps._current()
        n = parent.next(name)
        self._key = f"{n} {name}".encode()
        self._before = steps._recorder().mark()
        answer = steps._channel.call("step", {"name": name, "n": n, "parent": parent.number})
        if "value" in answer:
            self.known, self.value = True, answer["value"]
            steps._recorder().advance(self._before, self._key, answer["drew"])
        else:
            self.scope = _Scope(answer["number"])

    def __enter__(self):
        if self.scope is not None:
            self._token = self._steps._scope.set(self.scope)

    def __exit__(self, *exc):
        if self.scope is not None:
            self._steps._scope.reset(self._token)

    def end(self, value):
        """Record the value, and return it as a replay would."""
        try:
            text = channel._dumps(value)
        except (TypeError, ValueError, RecursionError) as e:
            why = "it is nested too deeply" if isinstance(e, RecursionError) else e
            raise type(e)(f"the value of step {self._name!r} cannot be recorded: {why}") from None
        if len(text) > _VALUE_BYTES:
            raise ValueError(f"the value of step {self._name!r} has {len(text)} bytes of JSON, at most {_VALUE_BYTES} are allowed: write it to a file in the step and return the file's name")
        value = channel._loads(text)
        if self.scope is not None:
            drew = self._steps._recorder().advance(self._before, self._key)
            self._steps._channel.call("step_done", {"number": self.scope.number, "value": value, "drew": drew})
        return value
