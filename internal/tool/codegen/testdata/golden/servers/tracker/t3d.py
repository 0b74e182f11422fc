import _sandpiper
from typing import Any


def t3d(angle: float = 1.5) -> Any:
    """Turns a model.

    Args:
        angle: More than -180, at most 180.

    Returns:
        Any: the server does not declare a type.

    Example:
        t3d()
    """
    return _sandpiper.call("tracker", "3d", {}, {"angle": angle})
