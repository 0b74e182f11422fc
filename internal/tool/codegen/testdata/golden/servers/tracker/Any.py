import _sandpiper
from typing import Any as _Any


def Any(what: _Any = _sandpiper.absent) -> _Any:
    """Finds any one.

    Returns:
        Any: the server does not declare a type.

    Example:
        Any()
    """
    return _sandpiper.call("tracker", "Any", {"what": what}, {})
