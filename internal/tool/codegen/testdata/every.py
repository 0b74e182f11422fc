"""Imports every module in DIR/servers, evaluates its types and calls its example.

Prints the number of tools. Arguments: DIR, and the directory of _sandpiper.py.
"""

import annotationlib
import asyncio
import importlib
import inspect
import os
import sys
import typing

tree, fake = sys.argv[1:3]
sys.path[:0] = [tree, fake]
sys.dont_write_bytecode = True

import servers

count = 0
for server in dir(servers):
    package = importlib.import_module("servers." + server)
    assert package.__doc__
    on_disk = {f.removesuffix(".py") for f in os.listdir(os.path.join(tree, "servers", server)) if f not in ("__init__.py", ".tools")}
    assert set(dir(package)) == on_disk, (server, set(dir(package)) ^ on_disk)
    for name in sorted(package._tools):
        function = getattr(package, name)
        module = sys.modules[f"servers.{server}.{name}"]
        assert function.__module__ == module.__name__ and function.__name__ == name and function.__doc__, name
        hints = typing.get_type_hints(function)
        assert len(hints) == 1 + len(inspect.signature(function).parameters)
        for value in vars(module).values():
            if typing.is_typeddict(value):
                typing.get_type_hints(value)
        example = function.__doc__.rpartition("\n    ")[2] if "\n    " in function.__doc__ else ""
        lines = inspect.cleandoc(function.__doc__).splitlines()
        example = lines[lines.index("Example:") + 1].strip()
        eval(example, {name: function})
        count += 1
    for part in package._parts:
        importlib.import_module(f"servers.{server}.{part}")
print(count)
