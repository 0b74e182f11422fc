import _sandpiper
from typing import Any


def defaults(
    a: int = 0,
    b: float = 0.25,
    c: float = 1e+21,
    d: bool = False,
    e: str = "",
    f: str = "it's \"so\"\\\n",
    g: list[str] | None = None,
    h: int | None = None,
    i: str | None = None,
    j: Any = 3,
) -> Any:
    """Has many defaults.

    Args:
        h: The server's default is "7".

    Returns:
        Any: the server does not declare a type.

    Example:
        defaults()
    """
    return _sandpiper.call(
        "file store",
        "defaults",
        {"j": j},
        {"a": a, "b": b, "c": c, "d": d, "e": e, "f": f, "g": g, "h": h, "i": i},
    )
