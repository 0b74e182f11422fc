import _sandpiper
from typing import Any


def abroad(a: Any = _sandpiper.absent, b: Any = _sandpiper.absent, c: Any = _sandpiper.absent) -> Any:
    """Refers to elsewhere.

    Returns:
        Any: the server does not declare a type.

    Example:
        abroad()
    """
    return _sandpiper.call("file store", "abroad", {"a": a, "b": b, "c": c}, {})
