import _sandpiper
from typing import Any


def schema_is_null(**more: Any) -> Any:
    """The tool "schema is null". Its server provides no description.

    Returns:
        Any: the server does not declare a type.

    Example:
        schema_is_null()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "schema is null", {**more}, {})
