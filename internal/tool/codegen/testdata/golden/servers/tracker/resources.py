"""The resources of servers.tracker."""

from builtins import list as _list
from typing import Any

import _sandpiper


def list() -> _list[dict[str, Any]]:
    """Return what resources there are: dicts with uri, name and what else the server says."""
    return _sandpiper.list_resources(_SERVER)


def templates() -> _list[dict[str, Any]]:
    """Return the patterns of the uris that can be read besides: dicts with uriTemplate and name."""
    return _sandpiper.list_resource_templates(_SERVER)


def read(uri: str) -> Any:
    """Return what a resource holds: its text, the value if that is JSON, or an object with bytes."""
    return _sandpiper.read_resource(_SERVER, uri)


_SERVER = "tracker"
