"""The preflight check: finds the tool calls in code before it runs.

It only reads the syntax tree. Unambiguous imports and calls of tools go to the
daemon, which returns findings for those that cannot work; then the code does not
run. A name that the code may rebind is ignored.
"""

import ast

from .errors import Refused

_PACKAGE = "servers"
_INNER = ("aio",)  # submodules of a server with the same tools
_OTHER = ("resources", "prompts")
_MOST = 500  # imports and calls checked
_INT_BITS = 14_000  # of an integer that can be written in decimal

# Handlers that show that an import, or a call, is expected to fail. A catch-all
# handler often surrounds a whole program and does not count for calls.
_NO_IMPORT = frozenset(["ImportError", "ModuleNotFoundError", "Exception", "BaseException"])
_NO_CALL = frozenset(["TypeError", "AttributeError"])
_SUPPRESS = ("suppress", "raises", "assertRaises")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LOOKS = frozenset(["dir", "hasattr", "getattr", "callable", "search_tools", "get_tool_definition", "__dir__", "find_spec"])
_REBIND = ("setattr", "delattr", "vars")
_NAMESPACES = ("globals", "locals", "vars")


class CheckError(Refused):
    """The code uses tools in a way that cannot work; it did not run."""


CheckError.__module__ = "builtins"
CheckError.__name__ = CheckError.__qualname__ = "CheckError"


def check(tree, channel, ours=True):
    """Raise CheckError if the daemon reports findings for the tools used in tree.

    ours reports whether call_tool is the original when the code starts.
    """
    uses = _Uses(tree)
    if not ours:
        uses.bound.add("call_tool")
    uses.visit(tree)
    args = uses.described()
    if args is None:
        return
    findings = channel.call("check", args)["findings"]
    if findings:
        raise CheckError("nothing was run: " + "\n".join(findings))


def tools(tree):
    """Return the tools that tree certainly uses, as [{"server", "function", "by_name"}].

    Names are those in the code: Python names, or the server's own in call_tool.
    """
    uses = _Uses(tree)
    uses.visit(tree)
    calls = [] if uses.open else [c for call in uses.calls if (c := uses._call(*call)) is not None]
    found = {(i["server"], i["function"], False) for i in uses.imports if i["function"] not in ("", "*")}
    found |= {(c["server"], c["function"], c["by_name"]) for c in calls}
    return [{"server": s, "function": f, "by_name": b} for s, f, b in sorted(found)[:_MOST]]


class _Name:
    """The binding of a name by an import, with its scope."""

    def __init__(self, meaning, scope, at, ready):
        self.meaning, self.scope, self.at, self.ready = meaning, scope, at, ready

    def seen_from(self, scope, at):
        mine = self.scope
        if at < self.at or scope[: len(mine)] != mine:
            return False
        return not (mine and isinstance(mine[-1], ast.ClassDef)) or scope == mine


class _Uses(ast.NodeVisitor):
    def __init__(self, tree):
        self.imports = []  # tools and servers in import statements
        self.names = {}  # name -> its meanings: ("root",), ("server", s), ("function", s, f)
        self.bound = set()  # names bound in other ways
        self.calls = []  # (node, scope, looked, maybe, caught) at the call
        self.stars = []  # positions of `import *`, which may bind any name
        self.open = False  # names may be bound in undetectable ways
        self.scope = ()  # enclosing functions and classes
        self.maybe = 0  # number of enclosing conditions
        self.looked = 0  # of those, conditions that test which tools exist
        self.caught = frozenset()  # names of exceptions caught by enclosing handlers
        self.elsewhere = _named(n for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler))

    def described(self):
        """Return the arguments of the call \"check\", or None if no tool is used."""
        calls = [] if self.open else [c for call in self.calls if (c := self._call(*call)) is not None]
        if not self.imports and not calls:
            return None
        return {"imports": self.imports[:_MOST], "calls": calls[:_MOST]}

    # --- bindings of names

    def visit_Import(self, node):
        for a in node.names:
            path = a.name.split(".")
            if path[0] != _PACKAGE:
                self.bound.add((a.asname or path[0]))
                self.open |= path[-1] == "mock"
                continue
            self._imported(node, path[1:])
            if a.asname is None:
                self._name(_PACKAGE, ("root",), node)
            else:
                self._name(a.asname, self._meaning(path[1:]), node)

    def visit_ImportFrom(self, node):
        path = (node.module or "").split(".")
        inside = path[0] == _PACKAGE and not node.level
        for a in node.names:
            if a.name == "*":
                self.stars.append(_at(node))
            if not inside:
                self.bound.add(a.asname or a.name)
                self.open |= a.name == "mock" or path[-1] == "mock"
            elif a.name == "*":
                self._imported(node, path[1:] and [*path[1:], "*"])
            else:
                of = path[1:] + ([] if path[-1] == a.name and len(path) > 2 else [a.name])
                self._imported(node, of)
                self._name(a.asname or a.name, self._meaning(of), node)

    def _name(self, name, meaning, node):
        known = self.names.setdefault(name, [])
        if meaning is None or any(n.meaning != meaning for n in known):
            self.bound.add(name)
        known.append(_Name(meaning, self.scope, _at(node), self._ready()))

    def _meaning(self, path):
        """Return the meaning of servers.path."""
        path = [p for i, p in enumerate(path) if not (i == 1 and p in _INNER)]
        if not path:
            return ("root",)
        if len(path) == 1:
            return None if path[0].startswith("_") else ("server", path[0])
        if len(path) == 2 and path[1] not in _OTHER and not path[1].startswith("_"):
            return ("function", *path)
        return None

    def _imported(self, node, path):
        path = [p for i, p in enumerate(path) if not (i == 1 and p in _INNER)]
        if path and not path[0].startswith("_"):
            other = len(path) > 1 and (path[1] in _OTHER or path[1].startswith("_"))
            function = "" if len(path) < 2 or other else path[1]
            self.imports.append({"server": path[0], "function": function, "line": node.lineno, "ready": self._ready()})

    def _ready(self):
        """Report whether the code handles a failed import, or may not reach it."""
        return bool(self.maybe) or not _NO_IMPORT.isdisjoint(self.caught)

    def visit_Name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)

    def visit_arg(self, node):
        self.bound.add(node.arg)
        self.generic_visit(node)

    def visit_MatchAs(self, node):
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_TypeVar = visit_ParamSpec = visit_TypeVarTuple = visit_MatchAs

    def visit_MatchMapping(self, node):
        if node.rest:
            self.bound.add(node.rest)
        self.generic_visit(node)

    def visit_Attribute(self, node):
        if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            self.bound.add(node.value.id)  # server.tool = …
        self.generic_visit(node)

    # --- scopes and conditions

    def _defined(self, node):
        self.bound.add(node.name)
        self._inside(node, node.body)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _defined

    def visit_Lambda(self, node):
        self._inside(node, [node.body])

    def _inside(self, node, body):
        """Visit the body in a new scope and the rest of node in the enclosing one."""
        for child in ast.iter_child_nodes(node):
            if child not in body:
                self.visit(child)
        scope, caught = self.scope, self.caught
        self.scope = (*scope, node)
        if not isinstance(node, ast.ClassDef):
            self.caught |= self.elsewhere  # a caller may catch them
        self._body(body)
        self.scope, self.caught = scope, caught

    def _body(self, body, maybe=0, looked=0, caught=frozenset()):
        before = self.maybe, self.looked, self.caught
        self.maybe, self.looked, self.caught = self.maybe + maybe, self.looked + looked, self.caught | caught
        for statement in body:
            self.visit(statement)
            if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES) and _looks(statement.test):
                self.maybe, self.looked = self.maybe + 1, self.looked + 1
        self.maybe, self.looked, self.caught = before

    def visit_Module(self, node):
        self._body(node.body)

    def visit_If(self, node):
        self.visit(node.test)
        looks = _looks(node.test)
        maybe = not (isinstance(node.test, ast.Compare) and isinstance(node.test.left, ast.Name) and node.test.left.id == "__name__")
        self._body(_list(node.body), maybe, looks)
        self._body(_list(node.orelse), maybe, looks)

    visit_IfExp = visit_If

    def visit_BoolOp(self, node):
        self.visit(node.values[0])
        self._body(node.values[1:], 1, any(map(_looks, node.values)))

    def visit_Match(self, node):
        self.visit(node.subject)
        self._body(node.cases, 1, _looks(node.subject))

    def visit_Try(self, node):
        self._body(node.body, caught=_named(node.handlers))
        self._body(node.handlers, 1)
        self._body(node.orelse)
        self._body(node.finalbody)

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node):
        if node.name:
            self.bound.add(node.name)
        if node.type:
            self.visit(node.type)
        self._body(node.body)

    def visit_With(self, node):
        caught = frozenset()
        for item in node.items:
            self.visit(item)
            call = item.context_expr
            if isinstance(call, ast.Call) and _last(call.func) in _SUPPRESS:
                caught |= frozenset(n for a in call.args for n in _classes(a))
        self._body(node.body, caught=caught)

    visit_AsyncWith = visit_With

    # --- calls

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name):
            if node.func.id in _REBIND and node.args and isinstance(node.args[0], ast.Name):
                self.bound.add(node.args[0].id)
            self.open |= node.func.id in _NAMESPACES and not node.args
        self.calls.append((node, self.scope, self.looked, self.maybe, self.caught))
        self.generic_visit(node)

    def _call(self, node, scope, looked, maybe, caught):
        """Return the description of a call to check, or None."""
        meaning, ready = self._of(node.func, scope, _at(node))
        if meaning is not None and meaning[0] == "function":
            if not _NO_CALL.isdisjoint(caught):
                return None
            call = self._described(node, meaning[1], meaning[2], node.args, False, ready or bool(looked))
            if "ToolError" in caught:  # raised for a wrong value
                call["args"], call["keywords"] = [{} for _ in call["args"]], {k: {} for k in call["keywords"]}
            return call
        if isinstance(node.func, ast.Name) and node.func.id == "call_tool" and "ToolError" not in caught and self._plain_call_tool(node):
            return self._described(node, node.args[0].value, node.args[1].value, [], True, bool(maybe))
        return None

    def _plain_call_tool(self, node):
        if "call_tool" in self.bound or "call_tool" in self.names or any(s < _at(node) for s in self.stars):
            return False
        return len(node.args) == 2 and all(isinstance(a, ast.Constant) and isinstance(a.value, str) for a in node.args)

    def _of(self, func, scope, at):
        """Return the meaning of a name or attribute, and whether the code handles its absence."""
        if isinstance(func, ast.Name):
            names = [n for n in self.names.get(func.id, ()) if n.seen_from(scope, at)]
            if func.id in self.bound or not names or any(names[0].at < s < at for s in self.stars):
                return None, False
            return names[0].meaning, all(n.ready for n in names)
        if isinstance(func, ast.Attribute) and not func.attr.startswith("_"):
            base, ready = self._of(func.value, scope, at)
            if base == ("root",):
                return ("server", func.attr), ready
            if base is not None and base[0] == "server":
                return (base if func.attr in _INNER else self._meaning([base[1], func.attr])), ready
        return None, False

    def _described(self, node, server, function, args, wire, ready):
        star = any(isinstance(a, ast.Starred) for a in args) or any(k.arg is None for k in node.keywords)
        return {
            "server": server, "function": function, "by_name": wire, "line": node.lineno, "open": star, "ready": ready,
            "args": [_literal(a) for a in args if not isinstance(a, ast.Starred)],
            "keywords": {k.arg: _literal(k.value) for k in node.keywords if k.arg is not None},
        }


def _at(node):
    return node.lineno, node.col_offset


def _list(body):
    return body if isinstance(body, list) else [body]


def _looks(test):
    """Report whether a condition tests which tools exist."""
    return any(_last(n) in _LOOKS for n in ast.walk(test))


def _last(node):
    """Return a name, or the last part of a dotted name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _classes(node):
    return [_last(n) for n in (node.elts if isinstance(node, ast.Tuple) else [node])]


def _named(handlers):
    """Return the names of the exceptions caught; a bare except counts as Exception."""
    return frozenset(n for h in handlers for n in (_classes(h.type) if h.type else ["Exception"]))


def _literal(node):
    """Return {"value": …} if the expression is plain JSON, else {}."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return {}
    return {"value": value} if _plain(value) else {}


def _plain(value):
    if value is None or type(value) in (bool, str):
        return True
    if type(value) is int:
        return value.bit_length() < _INT_BITS
    if type(value) is float:
        return value == value and abs(value) != float("inf")
    if type(value) is list:
        return all(map(_plain, value))
    return type(value) is dict and all(type(k) is str and _plain(v) for k, v in value.items())
