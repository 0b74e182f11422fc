"""The tools of servers.evil____import_os as coroutine functions: from servers.evil____import_os.aio import TOOL"""

import sys as _sys

from servers import _AsyncModule

_sys.modules[__name__].__class__ = _AsyncModule
