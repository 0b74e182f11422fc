import _sandpiper
from typing import NotRequired, TypedDict


Result = TypedDict(
    "Result",
    {
        "content": str,
        "content-type": NotRequired[str],
        "from": NotRequired[str],
    },
)


def resource_group_read(
    resource_group_2: str,
    path: str,
    resource_group: str | None = None,
    _filter: str | None = None,
) -> Result:
    """Reads a file of a group.

    Args:
        resource_group_2: Sent as "resource-group". The group.
        path: At least 2 characters, at most 255 characters, pattern ^/[a-z]+$.
        _filter: Sent as "$filter".

    Returns:
        {"content": str, "content-type?": str, "from?": str}

    Example:
        resource_group_read(resource_group_2="resource-group", path="path")
    """
    return _sandpiper.call(
        "file store",
        "resource-group.read",
        {"resource-group": resource_group_2, "path": path},
        {"resource_group": resource_group, "$filter": _filter},
    )
