"""Modules that the zygote imports after its first fork, and that the runtime does not need.

The first execution starts without them: they are a third of all modules and take half
of the time. A worker that was forked before imports a missing one when code does, with
the same result: `_Finder` adjusts to the sandbox those that need it.
"""

import importlib
import importlib.machinery
import os
import sys

from . import forking, unavailable

# Commonly imported modules. None starts a thread or keeps a descriptor.
_missing = """
asyncio multiprocessing abc argparse array base64 bisect calendar collections.abc concurrent.futures contextlib copy csv
dataclasses decimal difflib enum fnmatch fractions functools glob hashlib heapq hmac html inspect io ipaddress itertools
keyword linecache locale logging numbers operator os.path pathlib pickle pprint queue random secrets shlex shutil signal
string struct subprocess tempfile textwrap threading time timeit tokenize traceback types typing unicodedata urllib.parse
uuid warnings weakref zlib zoneinfo multiprocessing.pool concurrent.futures.thread concurrent.futures.process
""".split()


def import_next():
    """Import one of the modules; return False if there is none left."""
    if _missing:
        importlib.import_module(_missing[0])
        del _missing[0]
    return bool(_missing)


def import_steps():
    """Import all modules, one with each step, in the zygote."""
    while _missing:
        with forking.Skippable():
            import_next()
        yield


def import_all():
    while import_next():
        pass


def install():
    """Adjust some modules when they are imported."""
    sys.meta_path.insert(0, _Finder)


class _Finder:
    """Finds them in the standard library, as if they were imported already: a file of the workspace cannot replace them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        loader = _LOADERS.get(name)
        spec = loader and importlib.machinery.PathFinder.find_spec(name, _LIBRARY)
        if spec:
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


class _Multiprocessing(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        module.set_start_method("fork", force=True)


class _Subprocess(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        unavailable.wrap_popen(module)


_LIBRARY = [os.path.dirname(os.__file__)]
_LOADERS = {"asyncio": _Asyncio, "multiprocessing": _Multiprocessing, "subprocess": _Subprocess}
