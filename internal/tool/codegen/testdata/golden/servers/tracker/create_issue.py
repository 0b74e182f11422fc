import _sandpiper
from typing import Any


def create_issue(title: str) -> Any:
    """Creates an issue, the old way.

    Returns:
        Any: the server does not declare a type.

    Example:
        create_issue(title="title")
    """
    return _sandpiper.call("tracker", "create_issue", {"title": title}, {})
