"""The server "empty\"

from servers.empty import TOOL, where TOOL is one of:

    none
"""

import sys as _sys

from servers import _Package


class _This(_Package):
    _tools = frozenset((
    ))
    _parts = frozenset(("aio",))


_sys.modules[__name__].__class__ = _This
# made from 31bd7cb5d9fa6fbb8b6a1183dd0cdd50
