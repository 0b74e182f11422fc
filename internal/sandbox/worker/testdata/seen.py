# What code sees of the generated package servers: `from_source` imports it with the importers of CPython only.
import asyncio, importlib, inspect, pickle, pydoc, re, sys, traceback, typing

workspace = next(p for p in sys.path if p.endswith(workspace_name))
if from_source:
    sys.meta_path[:] = [f for f in sys.meta_path if f.__class__.__name__ != "_Finder" or f.__class__.__module__ != "sandpiper.modules"]

seen = []


def see(what, value):
    seen.append(f"{what}: {re.sub('0x[0-9a-f]+', '0x', str(value)).replace(workspace, '/workspace')}")


def outcome(f):
    try:
        return repr(f())
    except Exception as e:
        frames = [(t.filename.rpartition("/")[2], t.name) for t in traceback.extract_tb(e.__traceback__) if "/servers/" in t.filename]
        return f"{type(e).__name__}: {e} {getattr(e, 'name', '')} {frames if not isinstance(e, TypeError) else ''}"


def look(name, module):
    for attribute in ("__name__", "__file__", "__package__", "__path__", "__doc__", "__cached__"):
        see(f"{name}.{attribute}", getattr(module, attribute, "missing"))
    see(name + " loader", (type(module.__loader__), module.__loader__.name, module.__loader__.path, module.__spec__))
    see(name, (repr(module), type(module).__name__, type(module).__module__))


def look_at_function(name, f):
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__closure__", "__type_params__", "__dict__"):
        see(f"{name}.{attribute}", getattr(f, attribute))
    code = f.__code__
    see(name + " code", (code.co_name, code.co_filename, code.co_firstlineno, code.co_argcount, code.co_varnames, code.co_nlocals, code.co_flags, code.co_freevars))
    see(name, repr(f))


import servers

look("servers", servers)
see("dir", (dir(servers), servers.__all__))
see("source of servers", inspect.getsource(servers))
see("source of a class", inspect.getsource(servers._Package.__setattr__) + inspect.getsource(servers._as_coroutine_function))
see("missing server", outcome(lambda: servers.nobody))
see("missing server", outcome(lambda: importlib.import_module("servers.nobody")))
see("vars", sorted(vars(servers)))
for server in dir(servers):
    package = getattr(servers, server)
    full = "servers." + server
    look(full, package)
    see(full, (dir(package), package.__all__, sorted(package._tools), sorted(package._parts), sorted(vars(package))))
    see(full + " source", inspect.getsource(package))
    see(full + " missing", outcome(lambda: package.nothing))
    see(full + " missing", outcome(lambda: exec(f"from {full} import nothing")))
    see(full + " missing", outcome(lambda: importlib.import_module(full + ".nothing")))
    for n, tool in enumerate(sorted(package._tools)):
        name = f"{full}.{tool}"
        module = None
        if n % 3 == 1:
            module = importlib.import_module(name)
        f = getattr(package, tool)
        look_at_function(name, f)
        see(name + " answer", outcome(f))
        see(name + " answer", outcome(lambda: f(1, 2, 3)))
        see(name + " answer", outcome(lambda: f(x=1, **{"": 2})))
        wanted = [p for p in f.__code__.co_varnames[: f.__code__.co_argcount]]
        see(name + " answer", outcome(lambda: f(*[None] * len(wanted))))
        see(name + " answer", outcome(lambda: f(**dict.fromkeys(wanted, 7))))
        see(name + " in sys.modules", name in sys.modules)
        module = sys.modules[name]
        see(name, (type(module).__name__, repr(module)))
        if n % 2:
            see(name, sorted(k for k in vars(module) if k != "__builtins__"))
        see(name + " signature", inspect.signature(f))
        look_at_function(name, f)
        look(name, module)
        see(name + " names", dir(module))
        see(name + " hints", typing.get_type_hints(f))
        see(name + " annotations", {k: str(v) for k, v in inspect.get_annotations(f).items()})
        see(name + " source", inspect.getsource(f) + inspect.getsource(module))
        see(name + " help", pydoc.plain(pydoc.render_doc(f)))
        see(name + " same", (f is getattr(module, tool), f.__globals__ is vars(module), pickle.loads(pickle.dumps(f)) is f, getattr(package, tool) is f))
        see(name + " code", (f.__code__.co_code, [c for c in f.__code__.co_consts], f.__code__.co_names))
        see(name + " answer", outcome(lambda: f(**dict.fromkeys(wanted, 7))))
        coroutine = getattr(package.aio, tool)
        see(name + " aio", (str(inspect.signature(coroutine)), coroutine.__doc__, coroutine.__name__, coroutine.__module__, coroutine.__wrapped__ is f))
    see(full + " help", pydoc.plain(pydoc.render_doc(package)))
    names = {}
    exec(f"from {full} import *", names)
    see(full + " star", sorted(n for n in names if n != "__builtins__"))
    see(full + " vars", sorted(vars(package)))
see("modules", sorted(n for n in sys.modules if n.startswith("servers")))

from servers.tracker import resources, list_issues
import servers.tracker.get as get
from servers.tracker.create_issue import create_issue

see("forms of import", (get is servers.tracker.get, create_issue is servers.tracker.create_issue, resources.__name__, list_issues.__name__))
result = seen
