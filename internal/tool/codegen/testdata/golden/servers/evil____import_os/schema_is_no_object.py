import _sandpiper
from typing import Any


def schema_is_no_object(**more: Any) -> Any:
    """The tool "schema is no object", which its server does not describe.

    Returns:
        Any: the server does not say what.

    Example:
        schema_is_no_object()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "schema is no object", {**more}, {})
