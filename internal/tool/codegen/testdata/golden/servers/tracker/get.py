import _sandpiper
from typing import Any


def get(**more: Any) -> Any:
    """Has no schema to speak of.

    Returns:
        Any: the server does not declare a type.

    Example:
        get()
    """
    return _sandpiper.call("tracker", "get", {**more}, {})
