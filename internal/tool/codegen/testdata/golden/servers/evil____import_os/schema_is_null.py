import _sandpiper
from typing import Any


def schema_is_null() -> Any:
    """The tool "schema is null", which its server does not describe.

    Returns:
        Any: the server does not say what.

    Example:
        schema_is_null()
    """
    return _sandpiper.call("evil\"\"\"\nimport os", "schema is null", {}, {})
