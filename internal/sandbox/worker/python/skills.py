"""Saved skills: the four helpers, and the package `skills` they are imported from.

`import skills.NAME` imports the module of a skill. `from skills import NAME` imports
the callable of the same name in that module if there is one, else the module. Code
is always compiled from source, never read from a .pyc file. A skill's module has
the same initial globals as the code that imports it.
"""

import ast
import importlib.machinery
import io
import json
import linecache
import os
import sys
import types

from . import preflight

_PACKAGE = "skills"


class Skills:
    def __init__(self, channel, workspace):
        self._channel = channel
        self._folder = os.path.join(workspace, _PACKAGE)
        self.loaded = set()  # names of skills with a loaded module
        self._counted = set()  # names of skills that this execution has used
        self.dry = False  # in a dry run, the daemon keeps saved skills for the execution only
        self.guard = None  # the guard for loaded modules, while restricted code runs

    def save_skill(self, name, code, description="", tags=None):
        """Save Python code under a name, for later executions."""
        tree = compile(code, f"<skill {name}>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        compile(tree, f"<skill {name}>", "exec", dont_inherit=True)
        args = {"name": name, "code": code, "description": description, "tags": list(tags or ()), "tools": preflight.tools(tree)}
        answer = self._channel.call("save_skill", args)
        self.forget({name})
        return answer["message"]

    def load_skill(self, name, version=None):
        """Return the source of a saved skill, by default of its latest version."""
        args = {"name": name} if version is None else {"name": name, "version": version}
        return self._channel.call("load_skill", args)["code"]

    def list_skills(self):
        """Return the metadata of each saved skill."""
        return self._channel.call("list_skills", {})

    def search_skills(self, query="", tags=None):
        """Return the metadata of the saved skills that match, best first."""
        return self._channel.call("search_skills", {"query": query, "tags": list(tags or ())})

    def count(self, name):
        """Report that this execution uses a skill, once."""
        if name not in self._counted:
            self._counted.add(name)
            text = json.dumps({"method": "use_skill", "args": {"name": name}})
            self._channel.send(b"N", text.encode())

    def source(self, name):
        """Return (file name, source), from the mounted folder or else by a call."""
        path = os.path.join(self._folder, name + ".py")
        if self.dry:
            return f"<skill {name}>", self.load_skill(name)
        try:
            with io.open(path, encoding="utf-8") as f:
                return path, f.read()
        except OSError:
            return f"<skill {name}>", self.load_skill(name)

    def names(self):
        return sorted(s["name"] for s in self.list_skills())

    def begin(self):
        """Begin an execution: its imports read the skills again."""
        self._counted.clear()
        self.forget(set(self.loaded))

    def forget(self, names):
        """Remove the modules of the named skills, so that the next import reads them again."""
        for name in self.loaded & names:
            sys.modules.pop(f"{_PACKAGE}.{name}", None)
            vars(sys.modules[_PACKAGE]).pop(name, None)
        self.loaded -= names


def install(skills, ready):
    """Make the package importable; ready are the initial globals of each skill's module."""
    sys.meta_path.insert(0, _Finder(skills, ready))


class _Package(types.ModuleType):
    """The package; its attributes are the skills."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
        module = importlib.import_module(f"{_PACKAGE}.{name}")
        # The import has set the module as an attribute. Remove it, or the second
        # lookup by `from` would find it instead of the function.
        vars(self).pop(name, None)
        value = vars(module).get(name)
        return value if callable(value) else module

    def __dir__(self):
        return vars(self)["__loader__"].skills.names()


class _Module(types.ModuleType):
    """A skill; calling it calls the function of the same name in it."""

    def __call__(self, *args, **kwargs):
        return vars(self)[self.__name__.rpartition(".")[2]](*args, **kwargs)


class _Finder:
    def __init__(self, skills, ready):
        self.skills, self._ready = skills, ready

    def find_spec(self, fullname, path=None, target=None):
        if fullname == _PACKAGE:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if not fullname.startswith(_PACKAGE + "."):
            return None
        try:
            source = self.skills.source(fullname.partition(".")[2])
        except FileNotFoundError as e:
            raise ModuleNotFoundError(f"{e}", name=fullname) from None
        return importlib.machinery.ModuleSpec(fullname, self, loader_state=source)

    def create_module(self, spec):
        return _Package(spec.name) if spec.name == _PACKAGE else _Module(spec.name)

    def exec_module(self, module):
        if module.__name__ == _PACKAGE:
            module.__doc__ = "The saved skills, one module each."
            return
        filename, source = module.__spec__.loader_state
        module.__file__ = filename
        remember(filename, source)
        name = module.__name__.rpartition(".")[2]
        self.skills.loaded.add(name)
        self.skills.count(name)
        vars(module).update(self._ready)
        exec(self._compile(source, filename, vars(module)), vars(module))

    def _compile(self, source, filename, namespace):
        guard = self.skills.guard
        if guard is None:
            return compile(source, filename, "exec", dont_inherit=True)
        guard.enter(namespace)
        return guard.compile(source, filename, known=namespace)


def remember(filename, source):
    """Register source under filename, so that tracebacks show its lines."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    linecache.cache[filename] = (len(source), None, [line + "\n" for line in lines], filename)
