import _sandpiper
from typing import Any, Literal


def upload(
    kind: Literal["text", "bytes"] | None = None,
    text: str | None = None,
    data: str | None = None,
) -> Any:
    """Stores a file. Either text or bytes.

    Args:
        data: Encoded as base64.

    Returns:
        Any: the server does not declare a type.

    Example:
        upload(kind="text", text="text")
    """
    return _sandpiper.call("file store", "upload", {}, {"kind": kind, "text": text, "data": data})
