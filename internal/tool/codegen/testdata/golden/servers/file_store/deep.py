import _sandpiper
from typing import Any, Literal, NotRequired, TypedDict


class EItem(TypedDict):
    f: NotRequired[Literal[True, False]]


class D(TypedDict):
    e: NotRequired[list[EItem]]


class C(TypedDict):
    d: NotRequired[D]


class B(TypedDict):
    c: NotRequired[C]


class A(TypedDict):
    b: NotRequired[B]


def deep(a: A | None = None) -> Any:
    """Goes down.

    Returns:
        Any: the server does not declare a type.

    Example:
        deep()
    """
    return _sandpiper.call("file store", "deep", {}, {"a": a})
