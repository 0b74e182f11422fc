import _sandpiper
from builtins import str as _str
from typing import NotRequired, TypedDict


C = TypedDict(
    "C",
    {
        "_str": NotRequired[_str],
        "d": NotRequired[_str],
    },
)


def str(a: _str = "x", b: list[_str] | None = None, c: C | None = None) -> _str:
    """Shadows str.

    Returns:
        str

    Example:
        str()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "str", {}, {"a": a, "b": b, "c": c})
