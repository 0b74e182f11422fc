import _sandpiper
from typing import Any


def hidden____words(a: str | None = None) -> Any:
    """Looks harmless.
    Second line.
    Third.

    Args:
        a: One line only please.

    Returns:
        Any: the server does not declare a type.

    Example:
        hidden____words()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "hidden \U000e0049\U000e0067 words", {}, {"a": a})
