"""The tools of servers.file_store as coroutine functions: from servers.file_store.aio import TOOL"""

import sys as _sys

from servers import _AsyncModule

_sys.modules[__name__].__class__ = _AsyncModule
