import _sandpiper
from typing import Any, Literal


def contradiction(
    a: Any,
    missing: Any,
    b: Literal["x"] | None = None,
    c: str | None = None,
    d: Any = _sandpiper.absent,
    e: Any = _sandpiper.absent,
) -> Any:
    """Cannot be satisfied.

    Args:
        b: The server's default is "y".
        c: The server's default is 5.

    Returns:
        Any: the server does not declare a type.

    Example:
        contradiction(a="a", missing=...)
    """
    return _sandpiper.call(
        "file store",
        "contradiction",
        {"a": a, "missing": missing, "d": d, "e": e},
        {"b": b, "c": c},
    )
