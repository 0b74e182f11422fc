import _sandpiper
from typing import Any


def tag(
    tags: dict[str, str],
    scores: dict[str, float] | None = None,
    raw: dict[str, Any] | None = None,
    free: Any = _sandpiper.absent,
) -> Any:
    """Tags a file.

    Returns:
        Any: the server does not declare a type.

    Example:
        tag(tags={})
    """
    return _sandpiper.call("file store", "tag", {"tags": tags, "free": free}, {"scores": scores, "raw": raw})
