import _sandpiper
from typing import Any, NotRequired, TypedDict


class B(TypedDict):
    a: NotRequired[dict[str, Any]]
    esc: NotRequired[bool]


class A(TypedDict):
    b: NotRequired[B]


def mutual(a: A | None = None) -> Any:
    """Refers back and forth.

    Returns:
        Any: the server does not declare a type.

    Example:
        mutual()
    """
    return _sandpiper.call("file store", "mutual", {}, {"a": a})
