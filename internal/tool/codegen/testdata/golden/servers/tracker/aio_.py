import _sandpiper as _sandpiper_
from typing import Any


def aio_(
    from_: str,
    class_: int | None = None,
    type_: bool | None = None,
    _sandpiper: str | None = None,
) -> Any:
    """Has the name of a generated module.

    Args:
        from_: Sent as "from".
        class_: Sent as "class".
        type_: Sent as "type".

    Returns:
        Any: the server does not declare a type.

    Example:
        aio_(from_="from")
    """
    return _sandpiper_.call(
        "tracker",
        "aio",
        {"from": from_},
        {"class": class_, "type": type_, "_sandpiper": _sandpiper},
    )
