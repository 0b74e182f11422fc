import _sandpiper
from typing import Any


def search(text: str, limit: int = 10, owner: str | None = None, group: str | None = None) -> Any:
    """Finds files.

    Returns:
        Any: the server does not declare a type.

    Example:
        search(text="text")
    """
    return _sandpiper.call("file store", "search", {"text": text}, {"limit": limit, "owner": owner, "group": group})
