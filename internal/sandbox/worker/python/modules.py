"""Imports the generated package `servers`: the functions of tools, made without compiling their files.

A worker has the part that all tenants share in memory: `prepare` ran it in the zygote. A server's package
has a file .tools with a record of each tool, from which functions.py makes its function. A package without that
file is imported from its source.

The files are written by the daemon and mounted read-only.
"""

import builtins
import importlib
import importlib.machinery
import importlib.util
import json
import os
import stat
import sys
import types
from binascii import crc32

from . import failure, functions, lazy, servers as calls
from .errors import ToolError
from .files import INDEX

_PACKAGE = "servers"
_Loader = importlib.machinery.SourceFileLoader
_MAGIC = b"sandpiper tools 1 "
_HEADER = len(_MAGIC) + 27  # with three numbers of 8 hexadecimal digits, with a space or newline between them
_loads = json.JSONDecoder().decode


def install(servers):
    """Make the package importable."""
    bridge = types.ModuleType("_sandpiper")
    bridge.call, bridge.absent = servers.call, calls.absent
    for name in ("await_tools", "in_thread", "why_missing", "list_resources", "list_resource_templates", "read_resource", "list_prompts", "get_prompt"):
        setattr(bridge, name, getattr(servers, name))
    sys.modules["_sandpiper"] = bridge
    sys.meta_path.insert(0, _Finder(servers))
    sys.meta_path.insert(0, _Client(servers))
    sys.meta_path.append(_NoClient())
    sys.meta_path.append(_NewTools(servers))
    failure.leave_out(servers.folder)


def forget():
    """Remove the modules from sys.modules, so that the next import reads the current files."""
    if _PACKAGE in sys.modules:
        for name in [n for n in sys.modules if n == _PACKAGE or n.startswith(_PACKAGE + ".")]:
            del sys.modules[name]


class _Finder:
    """Finds the package and its modules in their mount, without a list of the files in it."""

    def __init__(self, servers):
        self._folder = servers.folder

    def find_spec(self, fullname, path=None, target=None):
        package, *rest = fullname.split(".")
        if package != _PACKAGE or len(rest) > 2:
            return None
        file = "/".join((self._folder, *rest))
        if len(rest) == 2:
            return _spec(fullname, file + ".py", _Loader) if _is_file(file + ".py") else None
        if _is_file(file + "/__init__.py"):
            return _spec(fullname, file + "/__init__.py", _LOADERS[len(rest)], [file])
        if not rest:
            raise ModuleNotFoundError("no MCP server is connected: there is no module servers", name=fullname)
        return None


def _is_file(path):
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _spec(name, path, loader, folder=None):
    return importlib.util.spec_from_file_location(name, path, loader=loader(name, path), submodule_search_locations=folder)


class _NewTools:
    """Finds the module of a tool whose server had not listed its tools when its package was imported.

    Otherwise it raises the reason why there is no such module. An import of names from a package ignores
    errors that have the name of the missing module, so this one has that of its package.
    """

    def __init__(self, servers):
        self._servers = servers

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.rpartition(".")
        server = package.rpartition(".")[2]
        if name.startswith("_") or package != _PACKAGE and package.rpartition(".")[0] != _PACKAGE:
            return None
        if package == _PACKAGE:
            why = self._servers.why_missing(name)
        else:
            sys.modules[_PACKAGE]._has_more(sys.modules[package])
            if found := importlib.machinery.PathFinder.find_spec(fullname, path):
                return found
            why = self._servers.why_missing(server, name)
        if why:
            raise ModuleNotFoundError(why, name=package)
        return None


class _Client:
    """Finds client.mcp_client, the old interface for tool calls."""

    def __init__(self, servers):
        self._servers = servers

    def find_spec(self, fullname, path=None, target=None):
        return importlib.machinery.ModuleSpec(fullname, self) if fullname == "client.mcp_client" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.call_mcp_tool = self._servers.call_mcp_tool
        module.call_tool = self._servers.call_tool
        module.ToolError = ToolError


class _NoClient:
    """Provides the package client if the workspace has none."""

    def find_spec(self, fullname, path=None, target=None):
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if fullname == "client" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pass


# --- the package servers

_prepared = None  # of the package: its names, functions and source


class _Shared:
    """The part of servers/__init__.py that does not depend on the servers."""

    def __init__(self):
        loader = importlib.util.find_spec(__package__ + ".servers_package").loader
        self.source = loader.get_data(loader.path)
        self.names = vars(types.ModuleType(_PACKAGE))  # also the globals of the functions
        exec(loader.get_code(loader.name), self.names)
        self.functions = list(_functions(self.names))
        self.place = None  # path and line of the source that the functions have

    def move(self, path, line):
        """Let the functions have the path and lines of the package in use."""
        if self.place == (path, line):
            return
        by = line - (self.place[1] if self.place else 0)
        for f in self.functions:
            f.__code__ = _moved(f.__code__, path, by)
        self.place = path, line


def _functions(names):
    """Yield the functions and methods that are defined in the package."""
    for value in names.values():
        if type(value) is type and value.__module__ == _PACKAGE:
            yield from _functions(vars(value))
        value = getattr(value, "__func__", value)  # of a class method
        if type(value) is types.FunctionType and value.__module__ == _PACKAGE:
            yield value


def _moved(code, path, by):
    consts = tuple(_moved(c, path, by) if type(c) is types.CodeType else c for c in code.co_consts)
    return code.replace(co_filename=path, co_firstlineno=code.co_firstlineno + by, co_consts=consts)


def prepare():
    """Execute the shared part. The zygote does so when it has imported what the part needs."""
    global _prepared
    if _prepared is None:
        _prepared = _Shared()
    return _prepared


def rehearse():
    """Import a package like those of servers, in the zygote, so that workers find the caches of the interpreter warm."""
    finder = _Finder(types.SimpleNamespace(folder=os.path.dirname(__file__) + "/example/servers"))
    bridge = sys.modules.get("_sandpiper")
    sys.modules["_sandpiper"] = types.SimpleNamespace(call=lambda *args: None)
    sys.meta_path.insert(0, finder)
    try:
        from servers.example import call

        call("a", b=2, d=3)
    finally:
        sys.meta_path.remove(finder)
        forget()
        if bridge is None:
            del sys.modules["_sandpiper"]
        else:
            sys.modules["_sandpiper"] = bridge


class _RootLoader(_Loader):
    """Loads the package servers when something of it is looked up; the import of a server's package needs nothing of it."""

    def exec_module(self, module):
        _plain_loader(module)
        _Root(module)


class _Root(lazy.Unloaded):
    """The package servers. Only its docstring and its list of hand-written files are compiled."""

    def execute(self):
        module = self.module
        loader, names, shared = module.__spec__.loader, vars(module), prepare()
        source = loader.get_data(loader.path)
        at = source.find(shared.source)
        if at < 0:  # of another version of the program
            return loader.exec_module(module)
        shared.move(loader.path, source.count(b"\n", 0, at))
        shared.names["__path__"] = module.__path__
        names |= {name: value for name, value in shared.names.items() if name not in _IMPORTED}
        for part in (source[:at], source[at + len(shared.source) :]):
            if part.strip():
                exec(compile(part, loader.path, "exec", dont_inherit=True), names)


_IMPORTED = frozenset(("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__path__", "__builtins__"))


def _plain_loader(module):
    """Let the module have the loader that it would have without this one."""
    spec = module.__spec__
    module.__loader__ = spec.loader = _Loader(spec.name, spec.origin)


# --- the package of one server


class _ServerLoader(_Loader):
    """Loads the package of one server from its file .tools."""

    def exec_module(self, module):
        _plain_loader(module)
        try:
            tools = _Tools(os.path.dirname(self.path))
        except (OSError, ValueError):
            return super().exec_module(module)
        package = prepare().names["_Package"]
        this = type("_This", (package,), {
            "__module__": _PACKAGE, "__getattr__": lambda package, name: _lookup(package, tools, name),
            "_tools": _Names(tools), "_parts": frozenset(tools.about["parts"]),
        })
        this.__module__ = module.__name__  # only now: a new class of a server's package waits for tools, whose names it reads
        vars(module).update(__builtins__=vars(builtins), __doc__=tools.about["doc"], _sys=sys, _Package=package, _This=this)
        module.__class__ = this


class _Names:
    """The names of the tools: read when they are needed, and then those of the class."""

    def __init__(self, tools):
        self._of = tools

    def __get__(self, package, cls):
        cls._tools = names = self._of.names()
        return names


_LOADERS = _RootLoader, _ServerLoader


def _lookup(package, tools, name):
    """Return an attribute of a package that it does not have yet."""
    with lazy.loading:  # two threads get the same function
        if name in vars(package):
            return vars(package)[name]
        if not name.startswith("_") and f"{package.__name__}.{name}" not in sys.modules and (record := tools.find(name)):
            function = vars(package)[name] = functions.make(package, tools.about["server"], *record)
            return function
    return importlib.import_module(_PACKAGE)._Package.__getattr__(package, name)  # a later call of a session may not have imported it


class _Tools:
    """A server's file .tools: a header, what describes the package, the names, a table, and the records by hash of the name.

    The table has the place where each group of records starts, so a record is found with three reads. There are no tools
    if the file was removed, or replaced by another version of the program.
    """

    def __init__(self, folder):
        self._path = f"{folder}/{INDEX}"
        with _Reading(self._path) as file:
            self.about = _loads(file.at(_HEADER, file.about).decode())

    def names(self):
        try:
            with _Reading(self._path) as file:
                return frozenset(file.at(_HEADER + file.about, file.names).decode().split())
        except (OSError, ValueError):
            return frozenset()

    def find(self, name):
        """Return the record of a tool, or None."""
        try:
            with _Reading(self._path) as file:
                entry = _HEADER + file.about + file.names + 8 * (crc32(name.encode()) % file.groups)
                place = file.at(entry, 16)
                start, end = int(place[:8], 16), int(place[8:], 16)
                records = (_loads(line.decode()) for line in file.at(start, end - start).splitlines())
                return next((r for r in records if r[0] == name), None)
        except (OSError, ValueError):
            return None


class _Reading:
    """An open file .tools."""

    def __init__(self, path):
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = self.at(0, _HEADER)
            if not header.startswith(_MAGIC):
                raise ValueError("another version")
            self.about, self.names, self.groups = (int(n, 16) for n in header[len(_MAGIC) :].split())
        except BaseException:
            os.close(self._fd)
            raise

    def at(self, start, size):
        return os.pread(self._fd, size, start)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.close(self._fd)
