"""help() without an argument: the names available without an import, one line each.

A model whose tool description is short can look up the rest here. The lines are
generated from the functions themselves.
"""


class Help:
    """help() lists the names available without an import; help(x) describes x."""

    def __init__(self, ready, restricted):
        self._ready = ready
        self._restricted = restricted  # returns whether the running code is restricted

    def __call__(self, *things):
        if not things:
            print("\n".join(_lines(self._ready)))
        elif self._restricted():
            print("\n".join(_line(getattr(t, "__name__", type(t).__name__), t) for t in things))
        else:
            import pydoc

            pydoc.help(*things)

    def __repr__(self):
        return self.__doc__


def _lines(ready):
    import inspect  # in the zygote, only after its first fork

    functions = {name: value for name, value in ready.items() if inspect.isroutine(value)}
    yield "Available without an import: " + " ".join(name for name in ready if name not in functions)
    for name, value in functions.items():
        yield _line(name, value)
    yield "from skills import NAME: a saved skill. from servers.SERVER import TOOL: a tool of an MCP server, or servers.SERVER.aio to await it."
    yield "help(x) describes x."


def _line(name, value):
    import inspect

    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = ""
    about = (inspect.getdoc(value) or "").partition("\n")[0]
    return f"{name}{signature}: {about}" if about else name + signature
