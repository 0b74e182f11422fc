"""Placeholders: the results of planned calls in a dry run.

A call that may change something is not made: the daemon adds it to a plan and returns its
number. The code receives a placeholder for the value. It may take parts of it and pass both to
later calls, in which the plan refers to the result of the call. An operation that depends on the
value ends the plan, since the further course of the code is unknown.

Two operations cannot be intercepted: `is`, so a placeholder is never None, and type().
"""

import collections.abc
import sys

_DEPTH = 50  # of a path into a result
_report = None  # reports the end of the plan to the daemon: (call, line, reason)


class PlanEnds(BaseException):
    """The dry run needs the result of a planned call. Not an Exception, so that code does not catch it."""


PlanEnds.__module__ = "builtins"


def _look(what):
    def look(self, *args, **kwargs):
        _stop(self, what)

    return look


class Placeholder:
    """The result of a planned call, or a part of it."""

    __slots__ = ("at",)
    __class__ = property(_look("asks for the type of"))  # used by isinstance

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)  # probed by Python and libraries
        try:
            return _part(self, name)
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key):
        if type(key) not in (str, int):
            _stop(self, f"takes the part {_name(key)} of")
        return _part(self, key)

    def get(self, key, *default):
        if default or type(key) is not str:
            _stop(self, "takes a part or else a default of")
        return _part(self, key)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


_at = Placeholder.__dict__["at"]
del Placeholder.at


# Operations that Python makes through special methods, with the verb for the message.
_LOOKS = {
    "tests the truth value of": "bool",
    "compares": "eq ne lt le gt ge",
    "goes through": "iter reversed aiter",
    "counts": "len length_hint",
    "looks for something in": "contains",
    "makes text of": "str repr format",
    "hashes": "hash",
    "makes a number or bytes of": "int float complex index bytes buffer round trunc floor ceil",
    "calculates with": """add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod
        divmod rdivmod pow rpow lshift rlshift rshift rrshift and rand or ror xor rxor neg pos abs invert""",
    "changes": "setitem delitem setattr delattr",
    "calls": "call",
    "awaits": "await",
    "takes the next of": "next anext",
    "opens": "enter exit aenter aexit fspath",
    "asks for the names in": "dir",
    "pickles": "reduce reduce_ex",
}
for _what, _names in _LOOKS.items():
    for _n in _names.split():
        setattr(Placeholder, f"__{_n}__", _look(_what))
collections.abc.Mapping.register(Placeholder)  # else mapping patterns of a match statement would skip it


def begin(report):
    """Set the function to call when the plan of this execution ends."""
    global _report
    _report = report


def placeholder(call, tool, schema=None):
    """Return the placeholder for the result of that call."""
    return _made(call, tool, (), schema)


def shown(p):
    """Return the text for p in the result of the code."""
    return f"<{_of(p)}>"


def lift(value):
    """Return value with placeholders replaced by None, and a list of the references.

    The references are separate from the value, so that no text in it can forge one.
    """
    found = []

    def go(v, place):
        kind = type(v)
        if kind is Placeholder:
            call, _, path, _ = _at.__get__(v)
            found.append({"argument": place, "call": call, "result": path})
            return None
        if kind is dict:
            return {k: go(x, (*place, str(k) if type(k) is int else k)) for k, x in v.items()}
        if kind is list or kind is tuple:
            return [go(x, (*place, i)) for i, x in enumerate(v)]
        return v

    return go(value, ()), found


def _made(*at):
    p = object.__new__(Placeholder)
    _at.__set__(p, at)
    return p


def _part(p, key):
    call, tool, path, schema = _at.__get__(p)
    if len(path) == _DEPTH:
        _stop(p, "takes too small a part of")
    return _made(call, tool, (*path, key), _within(schema, key))


def _within(schema, key):
    """Return the schema of a part, or None if unknown; raise KeyError if the schema rules the part out."""
    if type(schema) is not dict:
        return None
    if type(key) is int:
        return schema.get("items")
    parts = schema.get("properties")
    if type(parts) is not dict or key not in parts:
        if schema.get("additionalProperties") is False:
            raise KeyError(key)
        return None
    return parts[key]


def _of(p):
    call, tool, path, schema = _at.__get__(p)
    part = "".join(f"[{k!r}]" for k in path)
    kind = schema.get("type") if type(schema) is dict else None
    return f"the result{part} of call {call}, {tool}" + (f" ({kind})" if type(kind) is str else "")


def _stop(p, what):
    line = _line()
    try:
        _report(_at.__get__(p)[0], line, f"{what} {_of(p)}")
    except Exception:
        pass  # for instance in a forked process, which has no channel
    raise PlanEnds(f"the dry run ends in line {line}, which {what} {_of(p)}, which is unknown before the call is made")


def _line():
    """Return the current line of the code; 0 if there is none, as in a thread of a library."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<code"):
            return frame.f_lineno or 0
        frame = frame.f_back
    return 0


def _name(value):
    return type.__dict__["__name__"].__get__(type(value))
