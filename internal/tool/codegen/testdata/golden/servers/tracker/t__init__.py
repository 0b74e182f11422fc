import _sandpiper
from typing import Any


def t__init__() -> Any:
    """Starts.

    Returns:
        Any: the server does not declare a type.

    Example:
        t__init__()
    """
    return _sandpiper.call("tracker", "__init__", {}, {})
