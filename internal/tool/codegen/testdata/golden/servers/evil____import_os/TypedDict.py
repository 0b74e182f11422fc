import _sandpiper
from typing import NotRequired, TypedDict as _TypedDict


Result = _TypedDict(
    "Result",
    {
        "Result": NotRequired[str],
        "TypedDict": NotRequired[int],
    },
)


class X(_TypedDict):
    y: NotRequired[str]


X2 = _TypedDict(
    "X2",
    {
        "X": NotRequired[X],
        "X2": NotRequired[str],
    },
)


A = _TypedDict(
    "A",
    {
        "str": NotRequired[str],
        "int": NotRequired[int],
    },
)


class Result2(_TypedDict):
    a: NotRequired[A]


def TypedDict(Result: Result | None = None, x: X2 | None = None) -> Result2:
    """Shadows.

    Returns:
        {"a?": {"str?": str, "int?": int}}

    Example:
        TypedDict()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "TypedDict", {}, {"Result": Result, "x": x})
