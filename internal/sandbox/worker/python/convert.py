"""Converts any Python value to JSON.

The only error is TooLarge. Values without a counterpart in JSON become

    datetime, date, time           ISO 8601 text
    timedelta                      seconds, a number
    Decimal                        a number if a float holds it exactly as written, else text
    Fraction, complex              text
    NaN and infinities             null
    an int of more than 4,300 digits   hexadecimal text
    bytes                          text if it is UTF-8, else {"base64": …}
    set, deque, range, iterators   a list (sets sorted where they can be)
    Enum                           its value
    dataclass, NamedTuple, attrs, pydantic   an object of its fields
    numpy and pandas               scalars, lists; a DataFrame is a list of rows,
                                   with its labels; a Series a list, or an object if it has
                                   labels (pairs if some are the same)
    Path, UUID, IP addresses       text
    lone surrogates                U+FFFD
    a value inside itself          "<cycle>"
    deeper than 200 levels         "<too deep>"
    anything else                  its repr, at most 10,000 characters

Large plain values are the common case: they are recognised level by level at C
speed and passed to the C encoder; all others are converted recursively.
"""

import base64
import collections
import datetime
import enum
import json
import math
import sys
import types
from collections import abc

from . import plan

MAX_DEPTH = 200
_REPR_CHARS = 20_000
_INT_BITS = 14_000  # fewer than 4,300 decimal digits
_SAMPLE = 1 << 16


class TooLarge(Exception):
    """The value exceeds the limit on JSON bytes; the message states both."""


def _decimal(d):
    if not d.is_finite():
        return None
    f = float(d)
    if math.isfinite(f) and _Decimal(repr(f)) == d:
        return int(f) if f.is_integer() and abs(f) < 2**53 and d.as_tuple().exponent >= 0 else f
    return str(d)


def _seconds(t):
    s = t.total_seconds()
    return int(s) if s.is_integer() else s


def _bytes(b):
    b = bytes(b)
    try:
        return b.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(b).decode()}


_LEAF = {
    datetime.datetime: datetime.datetime.isoformat,
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: _seconds,
    complex: str,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    plan.Placeholder: plan.shown,
}
_ATOMS = frozenset({str, int, float, bool, types.NoneType})
_PLAIN = _ATOMS | _LEAF.keys()
_CONTAINERS = frozenset({list, tuple, dict})
_TREE = _PLAIN | _CONTAINERS

# Types of modules that the zygote imports after its first fork. There is no value of them before.
_LATER = {
    "decimal": {"Decimal": _decimal},
    "fractions": {"Fraction": str},
    "uuid": {"UUID": str},
    "pathlib": {"PosixPath": str, "PurePosixPath": str, "PurePath": None},
    "ipaddress": dict.fromkeys(("IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network"), str),
}
_Decimal, _PurePath = (), ()


def learn():
    """Support the types of the modules that have been imported; report whether there are new ones."""
    global _PLAIN, _TREE, _Decimal, _PurePath
    found = False
    for name in list(_LATER):
        module = sys.modules.get(name)
        kinds = [(getattr(module, kind, None), convert) for kind, convert in _LATER.get(name, {}).items()]
        if not kinds or not all(isinstance(kind, type) for kind, _ in kinds):
            continue  # not imported, or not yet completely
        if name == "decimal":
            _Decimal = module.Decimal
        elif name == "pathlib":
            _PurePath = module.PurePath
        _LEAF.update((kind, convert) for kind, convert in kinds if convert)
        _LATER.pop(name, None)
        found = True
    if found:
        _PLAIN = _ATOMS | _LEAF.keys()
        _TREE = _PLAIN | _CONTAINERS
    return found


def _leaf(value):
    value = _LEAF[type(value)](value)
    if value is None:  # a Decimal that is not finite: _Walk counts it
        raise ValueError
    return value


def argument(value):
    """Return the JSON equivalent of an argument that is not JSON; raise TypeError if there is none."""
    learn()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, (collections.deque, range)):
        return list(value)
    if _is_dataclass(type(value)):
        return {name: getattr(value, name) for name in _field_names(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(value).__name__} is not JSON: send text, as the tool wants it: x.decode() or base64.b64encode(x).decode()")
    if type(value) in _LEAF:
        value = _LEAF[type(value)](value)
        if value is not None:
            return value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _is_dataclass(kind):
    return hasattr(kind, "__dataclass_fields__")


def _field_names(value):
    import dataclasses  # in the zygote, only after its first fork

    return [f.name for f in dataclasses.fields(value)]


def _encoder(**options):
    return json.JSONEncoder(
        default=_leaf, allow_nan=False, check_circular=False, ensure_ascii=False, **options
    ).encode


_encode = _encoder(separators=(",", ":"))
_encode_indented = _encoder(indent=2)


def dumps(value, limit):
    """Return value as the bytes of JSON; raise TooLarge if they are more than limit."""
    return counted(value, limit)[0]


def counted(value, limit):
    """Return dumps(value, limit), and how many numbers in it became null since JSON has no NaN and no infinity."""
    walk = _Walk(limit)
    try:
        data = _utf8(_text(value, walk, _encode))
    except MemoryError:
        raise TooLarge("more JSON than the memory holds") from None
    if len(data) > limit:
        raise TooLarge(f"{len(data)} bytes of JSON, at most {limit} are allowed")
    return data, walk.nulls


def indented(value):
    """Return value as JSON text for people."""
    return _text(value, _Walk(1 << 40), _encode_indented)


def _text(value, walk, encode):
    if type(value) is plan.Placeholder:  # encode would test its type
        value = plan.shown(value)
    try:
        if _plain(value, walk.limit):
            return encode(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass  # a NaN, a key of an odd type, a very long int
    except RuntimeError:
        pass  # another thread changed it
    if learn():
        return _text(value, walk, encode)
    return encode(walk.value(value, 0))


def _utf8(text):
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _too_much(limit):
    return TooLarge(f"more than {limit} bytes of JSON")


def _plain(value, limit):
    """Report whether the C encoder alone converts value correctly.

    It does for a tree of lists, tuples and dicts, without subclasses and not too
    deep, whose leaves have known types. Levels are checked one by one, which ends at
    the depth limit for a value that contains itself. Shared containers could make
    levels exponentially large; their elements are counted.
    """
    if type(value) not in _CONTAINERS:
        return type(value) in _PLAIN
    level, left = [value], limit
    for _ in range(MAX_DEPTH):
        below = []
        for container in level:
            items = _items(container)
            left -= len(items) * 2
            kinds = set(map(type, items))
            if kinds <= _PLAIN:
                continue
            if not kinds <= _TREE:
                return False
            below += [x for x in items if type(x) in _CONTAINERS]
            if left < 0:
                break
        if left < 0 or _repeats(below):
            size = _elements(value)
            if size is not None and size * 2 > limit:
                raise _too_much(limit)
            return False
        if not below:
            return True
        level = below
    return False


def _items(container):
    return container.values() if type(container) is dict else container


def _repeats(containers):
    """Report whether a long list seems to contain few distinct containers."""
    some = containers[:_SAMPLE]
    return len(some) == _SAMPLE and len(set(map(id, some))) < _SAMPLE // 8


def _elements(value):
    """Return the number of elements of value, counting shared ones each time; None if it contains itself."""
    sizes, above = {}, set()
    todo = [(value, False)]
    while todo:
        container, leaving = todo.pop()
        i = id(container)
        if leaving:
            above.discard(i)
            sizes[i] = len(container) + sum(sizes.get(id(x), 0) for x in _items(container))
        elif i in above:
            return None
        elif i not in sizes:
            above.add(i)
            todo.append((container, True))
            inner = {id(x): x for x in _items(container) if type(x) in _CONTAINERS}
            todo += [(x, False) for x in inner.values()]
    return sizes[id(value)]


class _Walk:
    """Rebuilds one value from types that the C encoder supports."""

    def __init__(self, limit):
        self.limit = self.left = limit  # bytes, estimated from below
        self.nulls = 0  # numbers that are not finite
        self.above = set()  # ids of the containers around the current value

    def spend(self, n):
        self.left -= n
        if self.left < 0:
            raise _too_much(self.limit)

    def value(self, v, depth):
        kind = type(v)
        if kind is str:
            self.spend(len(v) + 2)
            return v
        self.spend(2)
        if kind is bool or v is None:
            return v
        if kind is int:
            return v if v.bit_length() < _INT_BITS else hex(v)
        if kind is float:
            return v if math.isfinite(v) else self.null()
        if kind in _LEAF:
            v = _LEAF[kind](v)
            return self.null() if v is None else self.bounded(v)
        if id(v) in self.above:
            return "<cycle>"
        if depth >= MAX_DEPTH:
            return "<too deep>"
        self.above.add(id(v))
        try:
            return self.container(v, kind, depth + 1)
        except (TooLarge, MemoryError):
            raise
        except BaseException:
            return self.bounded(_repr(v))
        finally:
            self.above.discard(id(v))

    def null(self):
        self.nulls += 1
        return None

    def bounded(self, v):
        self.spend(len(v) if isinstance(v, str) else 1)
        return v

    def container(self, v, kind, depth):
        for test, make in _KINDS:
            if issubclass(kind, test() if type(test) is types.FunctionType else test):
                return make(self, v, depth)
        make = _by_shape(kind)
        return make(self, v, depth) if make else self.bounded(_repr(v))

    # Each of the following converts one family of types.

    def object(self, items, depth):
        return {self.key(k): self.value(x, depth) for k, x in items}

    def list(self, items, depth):
        return [self.value(x, depth) for x in items]

    def key(self, k):
        if isinstance(k, enum.Enum) and not isinstance(k, (str, int)):
            k = k.value
        if type(k) is str:
            self.spend(len(k) + 3)
            return k
        if isinstance(k, str):
            return str.__str__(k)
        if k is None or isinstance(k, (bool, int, float)):
            return _encode(self.value(k, 0)).strip('"')
        k = _LEAF[type(k)](k) if type(k) in _LEAF else _repr(k)
        return k if isinstance(k, str) else str(k)

    def mapping(self, v, depth):
        return self.object(v.items(), depth)

    def sequence(self, v, depth):
        if hasattr(v, "_fields") and len(v._fields) == len(v):
            return self.object(zip(v._fields, v), depth)
        return self.list(v, depth)

    def unordered(self, v, depth):
        try:
            v = sorted(v)
        except TypeError:
            pass
        return self.list(v, depth)

    def range(self, v, depth):
        self.spend(len(v) * 2)
        return list(v)

    def fields(self, v, depth):
        return self.object(((name, getattr(v, name, None)) for name in _field_names(v)), depth)

    def attrs(self, v, depth):
        return self.object(((a.name, getattr(v, a.name, None)) for a in type(v).__attrs_attrs__), depth)


# In this order: the first that fits decides. A function returns a class that may be unknown yet, or no class.
_KINDS = (
    (enum.Enum, lambda w, v, d: w.value(v.value, d)),
    (str, lambda w, v, d: w.value(str.__str__(v), d)),
    (int, lambda w, v, d: w.value(int.__int__(v), d)),
    (float, lambda w, v, d: w.value(float.__float__(v), d)),
    (datetime.datetime, lambda w, v, d: None if _name(type(v)) == "NaTType" else v.isoformat()),
    (datetime.date, lambda w, v, d: v.isoformat()),
    (datetime.timedelta, lambda w, v, d: _seconds(v)),
    (lambda: _Decimal, lambda w, v, d: _decimal(v)),
    ((bytes, bytearray), lambda w, v, d: w.bounded(_bytes(v))),
    (lambda: _PurePath, lambda w, v, d: w.bounded(str(v))),
    (collections.UserString, lambda w, v, d: w.bounded(str(v))),
    (dict, _Walk.mapping),
    ((list, tuple), _Walk.sequence),
    ((set, frozenset), _Walk.unordered),
    (collections.deque, _Walk.list),
    (range, _Walk.range),
    ((type, types.ModuleType, types.FunctionType), lambda w, v, d: w.bounded(_repr(v))),
)


def _by_shape(kind):
    """Return the converter for a class, chosen by its attributes, or None."""
    package = getattr(kind, "__module__", "").partition(".")[0]
    if package in ("numpy", "pandas", "polars"):
        return _TABLES.get(_name(kind)) or (_unboxed if hasattr(kind, "tolist") else None)
    if _is_dataclass(kind):
        return _Walk.fields
    if hasattr(kind, "model_dump"):
        return lambda w, v, d: w.value(v.model_dump(), d)
    if hasattr(kind, "__attrs_attrs__"):
        return _Walk.attrs
    if issubclass(kind, abc.Mapping):
        return _Walk.mapping
    if issubclass(kind, abc.Set) and not issubclass(kind, abc.Sequence):
        return _Walk.list
    if issubclass(kind, (abc.Sequence, abc.ValuesView)) or hasattr(kind, "typecode"):
        return _Walk.list
    if issubclass(kind, abc.Iterator) and not hasattr(kind, "readline") and not hasattr(kind, "close"):
        return _Walk.list
    if issubclass(kind, types.GeneratorType):
        return _Walk.list
    return None


def _series(walk, v, depth):
    labels = v.index
    if _name(type(labels)) == "RangeIndex":
        return walk.list(v.tolist(), depth)
    if not getattr(labels, "is_unique", True):
        return walk.list(list(zip(labels.tolist(), v.tolist())), depth)
    return walk.object(zip(labels.tolist(), v.tolist()), depth)


def _unboxed(walk, v, depth):
    return walk.value(v.tolist(), depth)


def _frame(walk, v, depth):
    return walk.list(rows(v), depth)


def rows(frame):
    """Return the rows of a DataFrame as dicts, with its index unless that is the row number."""
    if hasattr(frame, "to_dicts"):
        return frame.to_dicts()
    index = getattr(frame, "index", None)
    kind = getattr(getattr(index, "dtype", None), "kind", "i")
    if kind not in "iu" or any(n is not None for n in getattr(index, "names", ())):
        try:
            frame = frame.reset_index()
        except ValueError:  # a column has its name already
            pass
    return frame.to_dict(orient="records")


_TABLES = {
    "DataFrame": _frame,
    "Series": _series,
    "NaTType": lambda w, v, d: None,
    "NAType": lambda w, v, d: None,
    "Period": lambda w, v, d: w.bounded(str(v)),
    "Interval": lambda w, v, d: w.bounded(str(v)),
}


def _name(kind):
    return type.__dict__["__name__"].__get__(kind)


def _repr(v):
    try:
        text = repr(v)
    except BaseException:
        return f"<{_name(type(v))} object>"
    if len(text) > _REPR_CHARS:
        return f"{text[:_REPR_CHARS]}… ({len(text)} characters)"
    return str.__str__(text)
