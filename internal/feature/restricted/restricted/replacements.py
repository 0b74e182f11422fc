"""Replaces builtins and modules for restricted code.

check.py checks the code before it runs; this module checks what is known only
at run time: the string that is compiled, the name that is looked up, the module
that is imported. Each replacement has the name, the arguments and the effect of
the original, within the lists of allowed.py.

One Guard serves one interpreter. `enter` installs it in the namespace of an
execution and `leave` removes it. Functions defined in between keep it, since a
function keeps the builtins with which it was created.
"""

import annotationlib
import ast
import builtins
import contextlib
import dataclasses
import functools
import importlib
import inspect
import operator
import sys
import types
import weakref

from ...errors import Refused
from . import allowed, check

_READY = ("json", "re", "math", "statistics", "collections")  # globals that are modules


class RestrictedError(Exception):
    """Restricted code used a forbidden name; the message states the name, the line and a replacement."""


class _Refused(Refused):
    """The code of an execution was refused before it ran."""


RestrictedError.__module__ = _Refused.__module__ = "builtins"
_Refused.__name__ = _Refused.__qualname__ = "RestrictedError"


class Guard:
    def __init__(self, workspace):
        self._workspace = workspace
        self._views = {}
        self._classes = weakref.WeakSet()  # classes defined by restricted code
        self._replacements = self._make()
        self._builtins = {}  # shared by all restricted code of this interpreter

    def check(self, tree, known):
        """Raise Refused if tree, the code of an execution, uses a forbidden name."""
        if found := check.find(tree, known, self.names_of):
            raise _Refused(check.explain(found))

    def enter(self, namespace):
        """Install the guard for code that runs in namespace; return its builtins."""
        if self._workspace in sys.path:  # so that a library that imports by name, as traceback does, finds no file of the code
            sys.path.remove(self._workspace)
        namespace["__builtins__"] = self._builtins
        self._builtins.update(self._replacements)  # undo changes of earlier code
        for name in _READY:
            if namespace.get(name) is sys.modules[name]:
                namespace[name] = self.view(name)
        return self._builtins

    def leave(self, namespace):
        """Remove the guard, before unrestricted code runs in namespace."""
        if self._workspace not in sys.path:
            sys.path.append(self._workspace)
        namespace["__builtins__"] = builtins
        for name in _READY:
            if namespace.get(name) is self._views.get(name, self):
                namespace[name] = sys.modules[name]

    def compile(self, source, filename, mode="exec", known=()):
        """Return the code object of source if it passes the check; else raise RestrictedError."""
        tree = compile(source, filename, mode, ast.PyCF_ONLY_AST, dont_inherit=True)
        if found := check.find(tree, known, self.names_of):
            raise RestrictedError(check.explain(found, filename))
        return compile(tree, filename, mode, dont_inherit=True)

    # --- modules

    def names_of(self, name):
        return vars(self.view(name)).keys() | allowed.INNER.get(name, frozenset())

    def view(self, name):
        """Return the module name as restricted code sees it."""
        view = self._views.get(name)
        if view is None:
            if (reason := check.module(name)) is not None:
                raise RestrictedError(reason)
            view = self._views[name] = _View(name)
            if name in allowed.MODULES:  # else a package that only contains listed modules
                self._fill(view, name)
            package, _, last = name.rpartition(".")
            if package:
                vars(self.view(package))[last] = view
        return view

    def _fill(self, view, name):
        module = importlib.import_module(name)
        names = allowed.MODULES[name].split() or _public(module)
        shown = {n: v for n in names if not isinstance(v := getattr(module, n), types.ModuleType)}
        shown |= {n: getattr(self, "_" + n) for n in _REPLACED.get(name, ())}
        vars(view).update(shown, __doc__=module.__doc__, __all__=sorted(shown))
        for n in allowed.INNER.get(name, frozenset()):
            if f"{name}.{n}" in sys.modules:
                self.view(f"{name}.{n}")

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        if name.partition(".")[0] in allowed.PACKAGES and not level:
            for n in fromlist or ():
                if (reason := check.inner(name, n)) is not None:
                    raise RestrictedError(reason)
            return builtins.__import__(name, None, None, fromlist, 0)
        if level or check.module(name) is not None:
            return _for_a_library(name)
        view = self.view(name)
        for n in fromlist or ():
            if n != "*" and n not in vars(view):
                if n not in allowed.INNER.get(name, frozenset()):
                    raise RestrictedError(check.lacking(name, n))
                self.view(f"{name}.{n}")
        return view if fromlist else self.view(name.partition(".")[0])

    # --- builtins

    def _make(self):
        named = {n: vars(builtins)[n] for n in allowed.BUILTINS | allowed.EXCEPTIONS}
        named |= {n: getattr(self, "_" + n) for n in allowed.CHECKED - {"type"}}
        named |= {n: _missing(n) for n in allowed.INSTEAD}
        return named | {
            "type": Type, "RestrictedError": RestrictedError, "__name__": "builtins",
            "__import__": self._import, "__build_class__": self._build_class,
        }

    def _compile(self, source, filename="<string>", mode="exec", flags=0, dont_inherit=False, optimize=-1):
        if flags:
            raise RestrictedError("compile: flags are not available in restricted code")
        code = Code(source, f"<{filename}>", mode)  # in brackets, so that a traceback does not show lines of a file of that name
        self.compile(*code.parts())
        return code

    def _exec(self, source, /, globals=None, locals=None):
        self._run(exec, "exec", source, globals, locals, sys._getframe(1))

    def _eval(self, source, /, globals=None, locals=None):
        if isinstance(source, str):
            source = source.lstrip(" \t")
        return self._run(eval, "eval", source, globals, locals, sys._getframe(1))

    def _run(self, run, mode, source, globals, locals, frame):
        """Run text or compiled code in the caller's namespace of exec or eval."""
        filename = "<string>"
        if isinstance(source, Code):
            source, filename, mode = source.parts()
        of_library = frame.f_builtins is vars(builtins)
        if globals is None:
            if of_library:  # restricted code may not see its names
                raise RestrictedError(f"{run.__name__} needs a dict of globals when a function of a library calls it")
            globals = frame.f_globals
            if locals is None:
                locals = frame.f_locals
                if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                    locals = dict(locals)
        if isinstance(globals, dict):
            dict.setdefault(globals, "__builtins__", self._builtins if of_library else frame.f_builtins)
        return run(self.compile(source, filename, mode, globals), globals, locals)

    def _getattr(self, obj, name, /, *default):
        self._check_attribute(obj, name)
        return getattr(obj, name, *default)

    def _hasattr(self, obj, name, /):
        self._check_attribute(obj, name)
        return hasattr(obj, name)

    def _setattr(self, obj, name, value, /):
        self._check_attribute(obj, name)
        setattr(obj, name, value)

    def _delattr(self, obj, name, /):
        self._check_attribute(obj, name)
        delattr(obj, name)

    def _check_attribute(self, obj, name):
        """Raise RestrictedError if the attribute name of obj is forbidden."""
        if not isinstance(name, str):
            return  # the original raises the TypeError
        name = str.__str__(name)
        if (reason := check.attribute(name)) is not None:
            raise RestrictedError(reason)
        if name and check.private(name) and not self._owns(obj):
            raise RestrictedError(f"the attribute {name} is private to a library")

    def _owns(self, obj):
        return (obj if isinstance(obj, type) else type(obj)) in self._classes

    def _vars(self, obj, /):
        if isinstance(obj, type) or not (self._owns(obj) or type(obj) is types.SimpleNamespace):
            raise RestrictedError("vars works in restricted code on objects of classes that it defines")
        return vars(obj)

    def _build_class(self, body, name, /, *bases, **options):
        if "metaclass" in options:
            raise RestrictedError("a metaclass is not available in restricted code: derive from abc.ABC or enum.Enum")
        made = builtins.__build_class__(body, name, *bases, **options)
        if isinstance(made, type):
            self._classes.add(made)
        return made

    # --- functions of modules

    def _dataclass(self, cls=None, /, **options):
        """dataclasses.dataclass, which generates source from field names, with a check of the names."""
        if cls is None:
            return lambda cls: self._dataclass(cls, **options)
        if cls not in self._classes:
            raise RestrictedError("dataclass works in restricted code on classes that it defines")
        notes = dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
        if not all(map(_proper, notes)) or not all(map(_proper_fields, cls.__mro__)):
            raise RestrictedError(f"a field of {cls.__name__} has no proper name")
        cls.__annotations__ = notes  # so that reading them again gives the same
        made = dataclasses.dataclass(cls, **options)
        for field in dataclasses.fields(made):
            if isinstance(field.type, annotationlib.ForwardRef):  # it would evaluate text
                field.type = field.type.__forward_arg__
        self._classes.add(made)  # with slots it is a new class
        return made

    def _wraps(self, wrapped, /):
        """functools.wraps, without the arguments that name attributes to copy."""
        def decorate(wrapper):
            return functools.wraps(wrapped)(wrapper) if type(wrapper) is types.FunctionType else wrapper
        return decorate

    def _redirect_stdout(self, target, /):
        """contextlib.redirect_stdout as a function: a derived class could redirect other streams."""
        return _redirected(target)

    def _attrgetter(self, *names):
        for name in names:
            if isinstance(name, str):
                for part in str.__str__(name).split("."):
                    self._check_attribute(None, part)
        return _function(operator.attrgetter(*names))

    def _methodcaller(self, name, /, *args, **kwargs):
        self._check_attribute(None, name)
        return _function(operator.methodcaller(name, *args, **kwargs))


_REPLACED = {
    "contextlib": ("redirect_stdout",),
    "dataclasses": ("dataclass",),
    "functools": ("wraps",),
    "operator": ("attrgetter", "methodcaller"),
}


@contextlib.contextmanager
def _redirected(target):
    old, sys.stdout = sys.stdout, target
    try:
        yield target
    finally:
        sys.stdout = old


def _for_a_library(name):
    """Import a module that is not allowed and return nothing.

    The import does not come from a statement, which the check would have refused.
    Functions written in C, such as datetime.strptime, import through the builtins of
    their caller and then read the module from sys.modules.
    """
    if name.partition(".")[0] not in sys.stdlib_module_names:
        raise RestrictedError(check.module(name) or "a relative import is not available in restricted code")
    builtins.__import__(name)


class _View(types.ModuleType):
    """A module with only the allowed names of the real one."""

    def __getattr__(self, name):
        raise AttributeError(check.lacking(vars(self)["__name__"], name))

    def __repr__(self):
        return f"<module {vars(self)['__name__']!r}>"


def _function(call):
    """Hide the class of call, with which code could create unchecked instances."""
    return lambda obj, /: call(obj)


def _public(module):
    names = getattr(module, "__all__", None) or vars(module)
    return [n for n in names if n[0] != "_"]


def _proper(name):
    """Report whether name is safe in the generated source of a dataclass."""
    return type(name) is str and name.isidentifier() and not check.attribute(name)


def _proper_fields(cls):
    """Report whether the dataclass fields of cls have safe names."""
    fields = vars(cls).get("__dataclass_fields__", {})
    return type(fields) is dict and all(type(f) is dataclasses.Field and _proper(f.name) for f in fields.values())


def _missing(name):
    """Return the replacement of a builtin that is not available."""
    def refuse(*args, **kwargs):
        raise RestrictedError(f"{name} is not available in restricted code: {allowed.INSTEAD[name]}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


class Code:
    """The return value of compile: the source, which is checked again when it runs."""

    __slots__ = ("_parts",)

    def __init__(self, source, filename, mode):
        self._parts = source, filename, mode

    def parts(self):
        return self._parts


class _Types(type):
    """The metaclass of Type, which makes Type behave like type."""

    def __call__(cls, obj, /, *more):
        if more:
            raise RestrictedError("type(name, bases, dict) is not available in restricted code: use a class statement")
        kind = type(obj)
        return Type if issubclass(kind, type) else kind

    def __instancecheck__(cls, obj):
        return isinstance(obj, type)

    def __subclasscheck__(cls, kind):
        return issubclass(kind, type)

    def __repr__(cls):
        return "<class 'type'>"


class Type(metaclass=_Types):
    """Replaces type, which could create classes without a check."""

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init_subclass__(cls, **options):
        raise RestrictedError("a metaclass is not available in restricted code")


Type.__name__ = Type.__qualname__ = "type"
