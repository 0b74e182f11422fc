import _sandpiper
from typing import Any, Literal


def chmod(
    mode: Literal[420, 493, -1],
    deep: bool | str | None = None,
    old: str | None = _sandpiper.absent,
) -> Any:
    """Sets a mode.

    Args:
        old: Deprecated.

    Returns:
        Any: the server does not declare a type.

    Example:
        chmod(mode=420)
    """
    return _sandpiper.call("file store", "chmod", {"mode": mode, "old": old}, {"deep": deep})
