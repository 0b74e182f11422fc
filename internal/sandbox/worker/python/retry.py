"""Repeats a function whose call of a tool failed for a reason that passes."""

import re
import time

from .errors import ToolError

_MAX_ATTEMPTS = 20
_FIRST, _LONGEST = 0.5, 60  # seconds; an error that asks for a longer wait is raised at once
_LITTLE = 0.1  # seconds after the time that a server asks to wait

_STATUS = frozenset([408, 425, 429, 502, 503, 504])
_WORDS = (  # compiled when the first error is looked at, as _AFTER
    r"(?i)(?<![\w#.$-])(?:429|503)(?![\w-]|[.,]\d)|try(?:ing)? again|retry (?:after|in|later)|rate.?limit|too many requests"
    r"|(?:temporarily|service|currently) unavailable|overloaded|server is busy"
)
_AFTER = r"(?i)(?:again|retry|retry.after|wait)\W*(?:(?:after|in|for|at least)\W*)*(\d+(?:\.\d+)?)\s*(ms|millis\w*|s|secs?|seconds?|m|min|minutes?)?\b"
_UNITS = {"m": 60, "s": 1}
_AFTER_KEYS = {"retry_after": 1, "retryafter": 1, "retry_after_seconds": 1, "retryafterseconds": 1, "retry_after_ms": 0.001, "retryafterms": 0.001}


class Retries:
    def retry(self, fn, attempts=3):
        """Return fn(), called up to 3 times while it raises an error that may pass: busy, rate limit, "try again".

        It waits as long as the server asks, otherwise half a second, then twice as long each time; the waits count
        towards the time limit. An error of a call that may have taken effect is raised at once. fn is called
        as a whole: put one call in it. If fn is a coroutine function, await the result.
        """
        if not callable(fn):
            raise TypeError(f"retry(fn, attempts=3): fn must be a function, got {type(fn).__name__}: write retry(lambda: f(x)), not retry(f(x))")
        if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= _MAX_ATTEMPTS:
            raise ValueError(f"retry(fn, attempts=3): attempts must be a number from 1 to {_MAX_ATTEMPTS}, got {attempts!r:.100}")
        for attempt in range(attempts):
            try:
                with ToolError.watch() as unknown:
                    value = fn()
            except Exception as e:
                time.sleep(_wait(e, unknown, attempt, attempts))
            else:
                return self._awaited(value, fn, attempt, attempts) if hasattr(value, "__await__") else value

    async def _awaited(self, value, fn, attempt, attempts):
        """Await a value, and that of fn() again after an error that may pass."""
        import asyncio

        while True:
            try:
                with ToolError.watch() as unknown:
                    return await (value if value is not None else fn())
            except Exception as e:
                await asyncio.sleep(_wait(e, unknown, attempt, attempts))
            value, attempt = None, attempt + 1


def _wait(error, unknown, attempt, attempts):
    """Return the seconds to wait before the next attempt, or raise the error."""
    if attempt + 1 == attempts or unknown or ToolError.may_have_effect(error):
        raise error
    found = _found(error)
    if found is None or (after := _after(found)) is not None and after > _LONGEST:
        raise error
    return _FIRST * 2**attempt if after is None else after + _LITTLE


def _found(error):
    """Return the error that may pass: this one, or one that led to it; None if there is none."""
    seen, left = set(), [error]
    while left:
        e = left.pop()
        if e is None or id(e) in seen:
            continue
        if _may_pass(e):
            return e
        seen.add(id(e))
        left += [e.__context__, e.__cause__]
    return None


def _may_pass(e):
    if getattr(e, "retryable", False):
        return True
    if isinstance(e, ToolError):
        data = _data(e)
        numbers = (e.status, data.get("status"), data.get("status_code"), data.get("statuscode"), data.get("code"))
        if data.get("retryable") is False:
            return False
        if data.get("retryable") is True or e.retry_after is not None or not _AFTER_KEYS.keys().isdisjoint(data) or any(type(n) is int and n in _STATUS for n in numbers):
            return True
    return isinstance(e, (ToolError, OSError, RuntimeError)) and re.search(_WORDS, str(e)) is not None


def _data(e):
    """Return the data of an error with lower-case keys, {} if it is no object."""
    data = getattr(e, "data", None)
    return {str(k).lower().replace("-", "_"): v for k, v in data.items()} if isinstance(data, dict) else {}


def _after(e):
    """Return the seconds that an error asks to wait, or None."""
    if (after := getattr(e, "retry_after", None)) is not None:
        return after
    data = _data(e)
    for key, unit in _AFTER_KEYS.items():
        value = data.get(key)
        if type(value) in (int, float) and value >= 0:
            return value * unit
    if match := re.search(_AFTER, str(e)):
        unit = (match[2] or "s").lower()
        return float(match[1]) * (0.001 if unit.startswith(("ms", "milli")) else _UNITS[unit[0]])
    return None
