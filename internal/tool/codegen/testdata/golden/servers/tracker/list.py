import _sandpiper
from builtins import list as _list
from typing import NotRequired, TypedDict


Filter = TypedDict(
    "Filter",
    {
        "list": NotRequired[_list[str]],
        "dict": NotRequired[str],
    },
)


class Result(TypedDict):
    names: _list[str]


def list(filter: Filter | None = None) -> Result:
    """Lists the names of projects.

    Returns:
        {"names": list[str]}

    Example:
        list()
    """
    return _sandpiper.call("tracker", "list", {}, {"filter": filter})
