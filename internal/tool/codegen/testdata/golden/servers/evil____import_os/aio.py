"""The tools of servers.evil____import_os as functions to be awaited: from servers.evil____import_os.aio import TOOL"""

import sys as _sys

from servers import _Awaitables

_sys.modules[__name__].__class__ = _Awaitables
