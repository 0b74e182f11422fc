import _sandpiper
from typing import Any


def odd_schema() -> Any:
    """The tool "odd schema". Its server provides no description.

    Returns:
        Any: the server does not declare a type.

    Example:
        odd_schema()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "odd schema", {}, {})
