import _sandpiper
from typing import Any


def schema_is_no_object(**more: Any) -> Any:
    """The tool "schema is no object". Its server provides no description.

    Returns:
        Any: the server does not declare a type.

    Example:
        schema_is_no_object()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "schema is no object", {**more}, {})
