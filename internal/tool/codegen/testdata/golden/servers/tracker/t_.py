import _sandpiper
from typing import Any, Literal


def t_(p_: Literal["r\xf6d", "bl\xe5"] = "bl\xe5") -> Any:
    """Draws a chart \U0001f4ca.

    Args:
        p_: Sent as "\\U0001f3a8".

    Returns:
        Any: the server does not declare a type.

    Example:
        t_()
    """
    return _sandpiper.call("tracker", "\U0001f4c8", {}, {"\U0001f3a8": p_})
