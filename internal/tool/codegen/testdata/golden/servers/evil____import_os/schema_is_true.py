import _sandpiper
from typing import Any


def schema_is_true(**more: Any) -> Any:
    """The tool "schema is true", which its server does not describe.

    Returns:
        Any: the server does not say what.

    Example:
        schema_is_true()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "schema is true", {**more}, {})
