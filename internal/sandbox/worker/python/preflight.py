"""The look at code before it runs: which tools does it name, and with what?

The tree is only read. What it says of tools, without doubt, goes to the daemon,
which knows the tools and answers with all that cannot work; then nothing of the
code runs. A name that the code may give another meaning is left alone.
"""

import ast

from .restrict import Refused

_PACKAGE = "servers"
_INNER = ("aio",)  # modules of a server's package that hold its tools again
_OTHER = ("resources", "prompts")
_MOST = 500  # uses that are checked


class CheckError(Refused):
    """The code names tools in a way that cannot work: nothing of it has run."""


CheckError.__module__ = "builtins"
CheckError.__name__ = CheckError.__qualname__ = "CheckError"


def check(tree, channel, filename):
    """Raise CheckError if the daemon finds something wrong with how tree uses tools."""
    uses = _Uses()
    uses.visit(tree)
    args = uses.described()
    if args is None:
        return
    findings = channel.call("check", args)["findings"]
    if findings:
        raise CheckError("nothing was run: " + "\n".join(findings))


class _Uses(ast.NodeVisitor):
    def __init__(self):
        self.imports = []  # what import statements name
        self.names = {}  # name -> what it means: ("root",), ("server", s), ("function", s, f)
        self.bound = set()  # names that get a meaning otherwise
        self.calls = []

    def described(self):
        """Return the daemon's arguments, or None if no tool is named."""
        calls = [c for node in self.calls if (c := self._call(node)) is not None]
        if not self.imports and not calls:
            return None
        return {"imports": self.imports[:_MOST], "calls": calls[:_MOST]}

    # --- what names mean

    def visit_Import(self, node):
        for a in node.names:
            path = a.name.split(".")
            if path[0] != _PACKAGE:
                self.bound.add((a.asname or path[0]))
                continue
            self._imported(node, path[1:])
            if a.asname is None:
                self._name(_PACKAGE, ("root",))
            else:
                self._name(a.asname, self._meaning(path[1:]))

    def visit_ImportFrom(self, node):
        path = (node.module or "").split(".")
        inside = path[0] == _PACKAGE and not node.level
        for a in node.names:
            if not inside:
                self.bound.add(a.asname or a.name)
            elif a.name == "*":
                self._imported(node, path[1:])
            else:
                of = path[1:] + ([] if path[-1] == a.name and len(path) > 2 else [a.name])
                self._imported(node, of)
                self._name(a.asname or a.name, self._meaning(of))

    def _name(self, name, meaning):
        if meaning is None or self.names.setdefault(name, meaning) != meaning:
            self.bound.add(name)

    def _meaning(self, path):
        """Return what servers.path is."""
        path = [p for i, p in enumerate(path) if not (i == 1 and p in _INNER)]
        if not path:
            return ("root",)
        if len(path) == 1:
            return ("server", path[0])
        if len(path) == 2 and path[1] not in _OTHER:
            return ("function", *path)
        return None

    def _imported(self, node, path):
        path = [p for i, p in enumerate(path) if not (i == 1 and p in _INNER)]
        if path and not path[0].startswith("_"):
            other = len(path) > 1 and (path[1] in _OTHER or path[1].startswith("_"))
            self.imports.append({"server": path[0], "function": "" if len(path) < 2 or other else path[1], "line": node.lineno})

    def visit_Name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)

    def visit_arg(self, node):
        self.bound.add(node.arg)
        self.generic_visit(node)

    def _defined(self, node):
        self.bound.add(node.name)
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _defined

    def visit_ExceptHandler(self, node):
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node):
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_Attribute(self, node):
        if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            self.bound.add(node.value.id)  # server.tool = …
        self.generic_visit(node)

    # --- calls

    def visit_Call(self, node):
        self.calls.append(node)
        self.generic_visit(node)

    def _call(self, node):
        meaning = self._of(node.func)
        if meaning is not None and meaning[0] == "function":
            return self._described(node, meaning[1], meaning[2], node.args, False)
        if isinstance(node.func, ast.Name) and node.func.id == "call_tool" and "call_tool" not in self.bound | self.names.keys():
            if len(node.args) == 2 and all(isinstance(a, ast.Constant) and isinstance(a.value, str) for a in node.args):
                return self._described(node, node.args[0].value, node.args[1].value, [], True)
        return None

    def _of(self, func):
        """Return what an expression means, if it is a name or an attribute of one."""
        if isinstance(func, ast.Name):
            return None if func.id in self.bound else self.names.get(func.id)
        if isinstance(func, ast.Attribute):
            base = self._of(func.value)
            if base == ("root",):
                return ("server", func.attr)
            if base is not None and base[0] == "server":
                return base if func.attr in _INNER else self._meaning([base[1], func.attr])
        return None

    def _described(self, node, server, function, args, wire):
        star = any(isinstance(a, ast.Starred) for a in args) or any(k.arg is None for k in node.keywords)
        return {
            "server": server, "function": function, "by_name": wire, "line": node.lineno, "open": star,
            "args": [_literal(a) for a in args if not isinstance(a, ast.Starred)],
            "keywords": {k.arg: _literal(k.value) for k in node.keywords if k.arg is not None},
        }


def _literal(node):
    """Return {"value": …} if the expression is plain JSON, else {}."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return {}
    return {"value": value} if _plain(value) else {}


def _plain(value):
    if value is None or type(value) in (bool, int, str):
        return True
    if type(value) is float:
        return value == value and abs(value) != float("inf")
    if type(value) is list:
        return all(map(_plain, value))
    return type(value) is dict and all(type(k) is str and _plain(v) for k, v in value.items())
