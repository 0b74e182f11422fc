"""Makes the functions of tools from the records of generated packages, without compiling their modules.

A function has the name, parameters, defaults and docstring of the one in the tool's module, and makes the same
call. The module is executed when something else of it is looked up, such as an annotation or a class. Then the
function gets the code and the annotations of the module's, so that the rest is the same too.
"""

import builtins
import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings

from . import lazy, servers

_VARKEYWORDS = 8  # inspect.CO_VARKEYWORDS


def _template():
    """Return the code of all functions: it calls its second constant with the arguments by name, as the third returns them."""
    source = "def call():\n    'doc'\n    return 1.5(2.5())\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = {}
        exec(source, names)
    return names["call"].__code__


_CODE = _template()


def make(package, server, name, tool, doc, line, params, more, returns):
    """Return the function of a tool, and add its module to sys.modules."""
    full = f"{package.__name__}.{name}"
    path = f"{os.path.dirname(package.__file__)}/{name}.py"
    spec = importlib.util.spec_from_file_location(full, path, loader=importlib.machinery.SourceFileLoader(full, path))
    module = importlib.util.module_from_spec(spec)
    names = vars(module)
    names["__builtins__"] = vars(builtins)
    variables = tuple(p[0] for p in params) + ((more,) if more else ())
    code = _CODE.replace(
        co_name=name, co_qualname=name, co_filename=path, co_firstlineno=line, co_argcount=len(params), co_nlocals=len(variables), co_varnames=variables,
        co_flags=_CODE.co_flags | (_VARKEYWORDS if more else 0), co_consts=(doc, _caller(server, tool, params, more, returns), locals),
    )
    function = types.FunctionType(code, names, name, tuple(_default(p) for p in params if p[2]) or None)
    names[name] = function
    unloaded = _Unloaded(module, name, function)
    function.__annotate__ = unloaded.annotate
    sys.modules[full] = module
    return function


def _default(param):
    """Return the default of a parameter: [name, name in the schema, kind, value]. Without a value it is "absent", or None."""
    if len(param) > 3:
        return param[3]
    return servers.absent if param[2] == _SENT else None


_SENT, _OMITTED = 1, 2  # kinds of parameters with a default: None is sent, or is omitted


def _caller(server, tool, params, more, returns):
    """Return what a tool's function calls with its arguments."""
    bridge = sys.modules["_sandpiper"]

    def call(values):
        required, optional = {}, {}
        for p in params:
            (optional if p[2] == _OMITTED else required)[p[1]] = values[p[0]]
        if more:
            required |= values[more]
        answer = bridge.call(server, tool, required, optional)
        return answer if returns else None

    return call


_VALUE = 1  # annotationlib.Format.VALUE


class _Unloaded(lazy.Unloaded):
    """The module of a tool, of which only the function exists."""

    def __init__(self, module, name, function):
        super().__init__(module, name)
        self._function = function
        self._made = function.__code__, function.__defaults__

        def __annotate__(format):
            try:
                self.load()
            except OSError:  # the tool was removed since
                return {}
            real = function.__annotate__
            if real is __annotate__ or real is None:
                return {}
            if format == _VALUE:
                return real(format)
            import annotationlib

            return annotationlib.call_annotate_function(real, format)

        self.annotate = __annotate__

    def execute(self):
        """Execute the module, and let the function be the one that it defines."""
        function, names = self._function, self._function.__globals__
        before = names[self.name]
        self.module.__spec__.loader.exec_module(self.module)
        real = names[self.name]
        names[self.name] = before
        if function.__code__ is self._made[0]:
            function.__code__ = real.__code__
        if function.__defaults__ is self._made[1]:
            function.__defaults__ = real.__defaults__
        if function.__annotate__ is self.annotate:
            function.__annotate__ = real.__annotate__
