import _sandpiper
from typing import Any, NotRequired, TypedDict


class Node(TypedDict):
    name: str
    children: NotRequired[list[dict[str, Any]]]


def tree(path: str) -> Node:
    """Shows a folder.

    Returns:
        {"name": str, "children?": list[dict[str, Any]]}

    Example:
        tree(path="path")
    """
    return _sandpiper.call("file store", "tree", {"path": path}, {})
