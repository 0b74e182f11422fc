"""Modules that are executed when something of them is looked up that they do not have yet."""

import types
from _thread import RLock

_KEY = " "  # of the Unloaded in the names of its module
loading = RLock()


class Unloaded:
    """A module that is not executed yet; it may have one name already."""

    def __init__(self, module, name=""):
        self.module, self.name = module, name
        self._is_loading = False
        vars(module)[_KEY] = self
        module.__class__ = _Module

    def load(self):
        """Execute the module, unless it is or was."""
        with loading:
            names = _names(self.module)
            if self._is_loading or _KEY not in names:
                return
            self._is_loading = True
            try:
                self.execute()
            finally:
                self._is_loading = False
            del names[_KEY]
            self.module.__class__ = types.ModuleType


class _Module(types.ModuleType):
    def __getattribute__(self, name):
        if name not in _PRESENT and (unloaded := _names(self).get(_KEY)) and name != unloaded.name:
            unloaded.load()
        return _lookup(self, name)

    def __setattr__(self, name, value):
        if name not in _PRESENT and (unloaded := _names(self).get(_KEY)) and not isinstance(value, types.ModuleType):
            unloaded.load()
        types.ModuleType.__setattr__(self, name, value)


_lookup = types.ModuleType.__getattribute__


def _names(module):
    return _lookup(module, "__dict__")


_PRESENT = frozenset(("__name__", "__spec__", "__loader__", "__package__", "__file__", "__cached__", "__path__", "__class__"))
_Module.__name__ = _Module.__qualname__ = "module"
_Module.__module__ = "builtins"
