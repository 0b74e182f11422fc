import _sandpiper
from typing import Any


def ref_into_itself(**more: Any) -> Any:
    """Refers to itself.

    Returns:
        Any: the server does not declare a type.

    Example:
        ref_into_itself()
    """
    return _sandpiper.call("file store", "ref_into_itself", {**more}, {})
