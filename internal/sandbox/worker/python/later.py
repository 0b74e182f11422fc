"""Modules that the zygote imports after its first fork, and that the first execution does not need.

They are most modules and take most of the time. A worker that was forked before imports
a missing one when code does, with the same result: `_Finder` adjusts to the sandbox
those that need it. Two that are visible before, in the globals of code and after a failure
in `traceback`, are deferred: empty until something looks up one of their names.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from _thread import RLock

from . import convert, features, forking, unavailable

# random is first, and its fork handler is not skipped: each worker has other random numbers.
# The next ones are those of the runtime. The rest are commonly imported. None starts a thread
# or keeps a descriptor.
_missing = f"""
random statistics dataclasses inspect _colorize fractions decimal ipaddress pathlib uuid socket selectors
{__package__}.stack {__package__}.replay {__package__}.literals {__package__}.examine
asyncio multiprocessing abc argparse array base64 bisect calendar collections.abc concurrent.futures contextlib copy csv
dataclasses decimal difflib enum fnmatch fractions functools glob hashlib heapq hmac html inspect io ipaddress itertools
keyword linecache locale logging numbers operator os.path pathlib pickle pprint queue random secrets shlex shutil signal
string struct subprocess tempfile textwrap threading time timeit tokenize traceback types typing unicodedata urllib.parse
uuid warnings weakref zlib zoneinfo multiprocessing.pool concurrent.futures.thread concurrent.futures.process
""".split() + [f"{module.__name__}.{name}" for module in features.MODULES for name in getattr(module, "LATER", ())]


_pending = {name for name in _missing if "." not in name}  # not yet imported by the zygote, nor by this worker
_deferred = {}  # name -> function that executes the module


def import_next():
    """Import one of the modules; return False if there is none left."""
    if _missing:
        name = _missing[0]
        importlib.import_module(name)
        if name in _deferred:
            _deferred[name]()
        del _missing[0]
    if not _missing:
        convert.learn()
    return bool(_missing)


def import_steps():
    """Import all modules, one with each step, in the zygote."""
    while _missing:
        if _missing[0] == "random":
            import_next()
        with forking.Skippable():
            import_next()
        yield


def import_all():
    while import_next():
        pass


def install():
    """Adjust some modules when they are imported, or now."""
    for name in _ADJUSTMENTS.keys() & sys.modules.keys():
        _ADJUSTMENTS[name](sys.modules[name])
    sys.meta_path.insert(0, _Finder)


def defer(name, **names):
    """Return a module that has these names, and is executed when another one is looked up for the first time."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.machinery.PathFinder.find_spec(name, _LIBRARY)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    lock = RLock()

    def load():
        with lock:
            if name not in _deferred:
                return
            del _deferred[name]
            changed = {n: v for n, v in vars(module).items() if own.get(n, own) is not v}  # by code
            try:
                spec.loader.exec_module(module)
            except BaseException:  # no descriptor or memory is free; this may end
                _deferred[name] = load
                raise
            del module.__getattr__, module.__dir__
            vars(module).update(changed)

    def lookup(attribute):
        load()
        try:
            return vars(module)[attribute]
        except KeyError:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}", name=attribute, obj=module) from None

    def names_of():
        load()
        return dir(module)

    own = vars(module) | names | {"__getattr__": lookup, "__dir__": names_of}
    vars(module).update(own)
    _deferred[name] = load
    return module


class _Finder:
    """Finds them in the standard library, as if they were imported already: a file of the workspace cannot replace them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        loader = _LOADERS.get(name)
        if loader is None and name not in _pending:
            return None
        _pending.discard(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path if "." in name else _LIBRARY)
        if spec and loader:
            spec.loader = loader(name, spec.origin)
        return spec


class _Asyncio(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        # ssl is large and useless without a network, and asyncio works without it.
        missing = "ssl" not in sys.modules
        if missing:
            sys.modules["ssl"] = None
        try:
            super().exec_module(module)
        finally:
            if missing:
                del sys.modules["ssl"]
        module.selector_events._HAS_SENDMSG = False  # the filter denies sendmsg, which can pass descriptors, but not send


class _Adjusting(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        _ADJUSTMENTS[module.__name__](module)


def _adjust_multiprocessing(module):
    module.set_start_method("fork", force=True)


def _adjust_selectors(module):
    module.DefaultSelector = module.PollSelector  # the filter denies epoll; asyncio and others use the default


_LIBRARY = [os.path.dirname(os.__file__)]
_ADJUSTMENTS = {
    "multiprocessing": _adjust_multiprocessing,
    "selectors": _adjust_selectors,
    "socket": unavailable.wrap_socket,
    "ssl": unavailable.wrap_ssl,
    "httpx._transports.default": unavailable.wrap_httpx,
    "subprocess": unavailable.wrap_popen,
}
_LOADERS = dict.fromkeys(_ADJUSTMENTS, _Adjusting) | {"asyncio": _Asyncio}
