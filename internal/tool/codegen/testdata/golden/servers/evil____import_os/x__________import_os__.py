import _sandpiper
from typing import Literal, NotRequired, TypedDict


Q = TypedDict(
    "Q",
    {
        "k\"\"\"": str,
        "\\": NotRequired[int],
        "ok": NotRequired[str],
    },
)


Result = TypedDict(
    "Result",
    {
        "\x00": NotRequired[str],
    },
)


def x__________import_os__(
    a___: str,
    b_: Literal["\"", "\"\"", "\"\"\"", "\\", "\n"] | None = None,
    p_: str = "\"\"\"\\",
    q: Q | None = None,
) -> Result:
    """A tool. "\"\" + __import__("os") + "\"\" \\

    Args:
        a___: Sent as "a\\\"\\\"\\\"\". "\"\"\\.
        b_: Sent as "b'".
        p_: Sent as "p\\\\\".

    Returns:
        {"\\x00?": str}

    Example:
        x__________import_os__(a___="a\\\"\\\"\\\"\")
    """
    return _sandpiper.call(
        "evil\"\"\"\nimport os",
        "x\"\"\"):\n    import os #",
        {"a\"\"\"": a___},
        {"b'": b_, "p\\": p_, "q": q},
    )
