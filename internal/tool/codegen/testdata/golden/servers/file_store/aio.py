"""The tools of servers.file_store as functions to be awaited: from servers.file_store.aio import TOOL"""

import sys as _sys

from servers import _Awaitables

_sys.modules[__name__].__class__ = _Awaitables
