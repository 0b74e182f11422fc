
from builtins import list as _list
from typing import Any

import _sandpiper


def list() -> _list[dict[str, Any]]:
    """Return the prompts: dicts with name, description and arguments."""
    return _sandpiper.list_prompts(_SERVER)


def get(name: str, /, **args: str) -> Any:
    """Return the messages of a prompt with these arguments."""
    return _sandpiper.get_prompt(_SERVER, name, args)
