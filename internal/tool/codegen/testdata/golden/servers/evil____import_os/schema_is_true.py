import _sandpiper
from typing import Any


def schema_is_true(**more: Any) -> Any:
    """The tool "schema is true". Its server provides no description.

    Returns:
        Any: the server does not declare a type.

    Example:
        schema_is_true()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "schema is true", {**more}, {})
