"""The tools of servers.tracker as coroutine functions: from servers.tracker.aio import TOOL"""

import sys as _sys

from servers import _AsyncModule

_sys.modules[__name__].__class__ = _AsyncModule
