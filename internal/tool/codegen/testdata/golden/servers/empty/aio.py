"""The tools of servers.empty as coroutine functions: from servers.empty.aio import TOOL"""

import sys as _sys

from servers import _AsyncModule

_sys.modules[__name__].__class__ = _AsyncModule
