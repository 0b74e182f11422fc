import _sandpiper
from typing import Any, Literal


def conditions(kind: Literal["a", "b"], alpha: str | None = None, beta: int | None = None) -> Any:
    """Has conditions.

    Returns:
        Any: the server does not declare a type.

    Example:
        conditions(kind="a")
    """
    return _sandpiper.call("file store", "conditions", {"kind": kind}, {"alpha": alpha, "beta": beta})
