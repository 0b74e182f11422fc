import _sandpiper
from typing import Any, Literal


def move(pairs: list[tuple[str, str]], mode: Literal["keep", "replace"] | None = _sandpiper.absent) -> Any:
    """Moves files.

    Returns:
        Any: the server does not declare a type.

    Example:
        move(pairs=[["pairs", "pairs"]])
    """
    return _sandpiper.call("file store", "move", {"pairs": pairs, "mode": mode}, {})
