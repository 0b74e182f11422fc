"""What code gets in a dry run in place of what a tool would have answered.

A call that may change something is not made: the daemon puts it into a plan and answers with its
number. The code holds a placeholder instead of the value. It may take parts of it and pass both on
to later calls, where the plan refers to the result of the call. Whatever would have to know the
value ends the plan there: the code could go one way or another.

Two looks are not seen, since Python asks nobody: `is`, which says that a placeholder is not None,
and type().
"""

import collections.abc
import sys

_DEPTH = 50  # of a path into a result
_tell = None  # tells the daemon that the plan ends: (call, line, what)


class PlanEnds(BaseException):
    """The dry run has come to where it would have to know what a call answers. It is no Exception, so that code does not go on."""


PlanEnds.__module__ = "builtins"


def _look(what):
    def look(self, *args, **kwargs):
        _stop(self, what)

    return look


class Placeholder:
    """The result of a planned call, or a part of it."""

    __slots__ = ("at",)
    __class__ = property(_look("asks for the type of"))  # isinstance does

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)  # what Python and libraries look for
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


# What Python does with a value by way of its class, and how a sentence says it.
_LOOKS = {
    "asks for the truth of": "bool",
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
collections.abc.Mapping.register(Placeholder)  # or a match statement would pass it by


def begin(tell):
    """Let tell know when the plan of this execution ends."""
    global _tell
    _tell = tell


def placeholder(call, tool, schema=None):
    """Return what stands for the result of the call with that number."""
    return _made(call, tool, (), schema)


def shown(p):
    """Return the text that stands for p in the result of the code."""
    return f"<{_of(p)}>"


def lift(value):
    """Return value with None in place of placeholders, and what those refer to.

    The places are beside the value, where no text in it can be taken for one.
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
    """Return the schema of a part, as far as it is known; raise KeyError if there can be no such part."""
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
        _tell(_at.__get__(p)[0], line, f"{what} {_of(p)}")
    except Exception:
        pass  # a process that the code forked, say, which has nobody to tell
    raise PlanEnds(f"the dry run ends in line {line}, which {what} {_of(p)}: that is not known before the call is made")


def _line():
    """Return the line of the code that is being run; 0 if there is none, as in a thread of the library's."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<code"):
            return frame.f_lineno or 0
        frame = frame.f_back
    return 0


def _name(value):
    return type.__dict__["__name__"].__get__(type(value))
