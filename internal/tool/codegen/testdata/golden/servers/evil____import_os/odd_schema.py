import _sandpiper
from typing import Any


def odd_schema() -> Any:
    """The tool "odd schema", which its server does not describe.

    Returns:
        Any: the server does not say what.

    Example:
        odd_schema()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "odd schema", {}, {})
