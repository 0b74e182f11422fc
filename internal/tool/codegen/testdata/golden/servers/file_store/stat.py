import _sandpiper
from typing import Literal, NotRequired, TypedDict


class Result(TypedDict):
    size: int
    kind: NotRequired[Literal["file", "folder"]]
    mode: NotRequired[Literal[420]]


def stat(path: str) -> Result:
    """Tells of a file.

    Returns:
        {"size": int, "kind?": Literal["file", "folder"], "mode?": Literal[420]} in the results so far: inferred, not declared.

    Example:
        stat(path="path")
    """
    return _sandpiper.call("file store", "stat", {"path": path}, {})
