import _sandpiper
from typing import Any, TypedDict


class First(TypedDict):
    x: float
    y: float


def same_twice(first: First, second: First | None = None) -> Any:
    """Has two parameters alike.

    Returns:
        Any: the server does not declare a type.

    Example:
        same_twice(first={"x": 1, "y": 1})
    """
    return _sandpiper.call("file store", "same_twice", {"first": first}, {"second": second})
