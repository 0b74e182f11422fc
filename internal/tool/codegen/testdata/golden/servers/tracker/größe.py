import _sandpiper
from typing import Any


def größe(höhe: float, 名前: str | None = None) -> Any:
    """Misst die Gr\xf6\xdfe eines Textes in \xb5m. Auch mit Umlauten \u2013 und \u201cAnf\xfchrung\u201d.

    Returns:
        Any: the server does not declare a type.

    Example:
        gr\xf6\xdfe(h\xf6he=1)
    """
    return _sandpiper.call("tracker", "gr\xf6\xdfe", {"h\xf6he": höhe}, {"\u540d\u524d": 名前})
