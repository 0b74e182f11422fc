"""The resources of servers.file_store."""

from builtins import list as _list
from typing import Any

import _sandpiper


def list() -> _list[dict[str, Any]]:
    """Return the resources: dicts with uri, name and other fields from the server."""
    return _sandpiper.list_resources(_SERVER)


def templates() -> _list[dict[str, Any]]:
    """Return the URI templates of other readable resources: dicts with uriTemplate and name."""
    return _sandpiper.list_resource_templates(_SERVER)


def read(uri: str) -> Any:
    """Return the content of a resource: the decoded value if it is JSON, text, or an object with bytes."""
    return _sandpiper.read_resource(_SERVER, uri)


_SERVER = "file store"
