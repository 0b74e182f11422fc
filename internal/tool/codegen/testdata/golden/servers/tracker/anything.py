import _sandpiper
from typing import Any


def anything(id: str, **more: str | int) -> Any:
    """Takes whatever it is given.

    Returns:
        Any: the server does not declare a type.

    Example:
        anything(id="id")
    """
    return _sandpiper.call("tracker", "anything", {"id": id, **more}, {})
