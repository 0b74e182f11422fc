import _sandpiper
from typing import Any, NotRequired, TypedDict


class Result(TypedDict):
    box: NotRequired[list[float | str]]


def crop(
    box: tuple[float, float, float, float],
    ratio: list[Any] | None = None,
    border: list[list[float]] | None = None,
) -> Result:
    """Cuts a picture.

    Args:
        border: At least 1 items.

    Returns:
        {"box?": list[float | str]}

    Example:
        crop(box=[1, 1, 1, 1])
    """
    return _sandpiper.call("file store", "crop", {"box": box}, {"ratio": ratio, "border": border})
