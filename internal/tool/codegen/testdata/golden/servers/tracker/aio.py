"""The tools of servers.tracker as functions to be awaited: from servers.tracker.aio import TOOL"""

import sys as _sys

from servers import _Awaitables

_sys.modules[__name__].__class__ = _Awaitables
