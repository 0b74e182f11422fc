"""Checks restricted code before it runs.

The check reads the syntax tree, in which the parser has normalised every name
(`ﬁ` is `fi`), and reports each import, name and attribute that allowed.py does
not list. replacements.py checks what depends on values at run time, such as the string
passed to getattr or exec.

This is a guardrail for well-meant code and a first obstacle for hostile code. The
kernel isolates the sandbox and does not depend on it.
"""

import ast

from . import allowed

_SHOWN = 3  # findings named in one message
_SILENT = frozenset({ast.Constant, ast.Load, ast.Store, ast.Del})  # nodes that hold no name
_TEXT = frozenset({"type_comment", "str"})  # fields whose text is not a name
_ATTRIBUTES = frozenset({"getattr", "hasattr", "setattr", "delattr"})
_FILES = frozenset({"os", "pathlib", "shutil", "glob", "tempfile", "os.path", "codecs", "zipfile", "tarfile", "sqlite3"})


def find(tree, known, names_of):
    """Return the findings in tree as (line, text), in the order of lines.

    known are the existing variables, names_of(module) returns the available names
    of an allowed module.
    """
    walk = _Walk(names_of)
    walk.visit(tree)
    walk.missing(known)
    return sorted(walk.found)


def explain(found, filename=""):
    """Return the message for findings."""
    place = f"{filename}, line" if filename else "line"
    lines = [f"{place} {line}: {text}" for line, text in found[:_SHOWN]]
    rest = len(found) - _SHOWN
    if rest > 0:
        lines.append(f"and {rest} more")
    return "; ".join(lines)


def attribute(name):
    """Return the reason why the attribute name is forbidden, or None."""
    if name in allowed.INSIDES:
        return f"the attribute {name} is not available in restricted code"
    if _dunder(name) and name not in allowed.READABLE:
        return f"the attribute {name} is not available in restricted code: {_ADVICE.get(name, _NO_DUNDER)}"
    return None


_NO_DUNDER = "of the names with double underscores only __name__, __qualname__ and __doc__ can be read"
_ADVICE = {
    "__class__": "use type(x)",
    "__dict__": "use vars(x)",
    "__init__": "use super().__init__(…)",
    "__len__": "use len(x)",
    "__str__": "use str(x)",
    "__repr__": "use repr(x)",
    "__iter__": "use iter(x)",
    "__next__": "use next(x)",
    "__getitem__": "use x[key]",
    "__contains__": "use key in x",
}


def private(name):
    """Report whether name may be used only by methods of its own class."""
    return name[0] == "_" and not _dunder(name) and name not in allowed.PUBLIC


def binding(name):
    """Return the reason why code may not bind name, or None."""
    if _dunder(name) and name not in allowed.SETTABLE:
        return f"the name {name} is not available in restricted code"
    return None


def module(name):
    """Return the reason why the module cannot be imported, or None."""
    if name in allowed.MODULES or name.partition(".")[0] in allowed.PACKAGES:
        return None
    if any(m.startswith(name + ".") for m in allowed.MODULES):
        return None
    files = " (for files: read_file, write_file, list_files, delete_file)" if name in _FILES else ""
    return f"the module {name} is not available in restricted code{files}; available modules: {', '.join(MODULES)}, skills and servers"


MODULES = [name for name in allowed.MODULES if name != "__future__"]


def _dunder(name):
    return name[:2] == "__" and name[-2:] == "__"


class _Walk:
    """Visits every node of a tree once, in no particular order."""

    def __init__(self, names_of):
        self.names_of = names_of
        self.found = set()
        self.bound = set()  # names that the code binds somewhere
        self.classes = set()  # bound names that are classes
        self.read = []  # (name, node) of each name read
        self.privates = []  # (receiver, node) of attributes with an underscore
        self.positional = []  # (class, node) of patterns by position

    def visit(self, tree):
        todo = [tree]
        while todo:
            node = todo.pop()
            visit = _VISITORS.get(type(node))
            if visit is not None:
                visit(self, node)
            for field in node._fields:
                value = getattr(node, field, None)
                for part in value if type(value) is list else (value,):
                    if isinstance(part, ast.AST):
                        if type(part) not in _SILENT:
                            todo.append(part)
                    elif type(part) is str and visit is None and field not in _TEXT:
                        self.bind(part, node)

    def report(self, node, text):
        if text is not None:
            self.found.add((getattr(node, "lineno", 0), text))

    def bind(self, name, node):
        self.bound.add(name)
        self.report(node, binding(name))

    def missing(self, known):
        """Check the names read, after all bindings are known."""
        for name, node in self.read:
            if name in allowed.INSTEAD and name not in self.bound and name not in known:
                self.report(node, f"{name} is not available in restricted code: {allowed.INSTEAD[name]}")
        for receiver, node in self.privates:
            if receiver not in allowed.OWN and receiver not in self.classes:
                self.report(node, f"the attribute {_name(node)} is private: restricted code uses those of self and cls only")

        for klass, node in self.positional:
            if klass not in allowed.MATCHED or klass in self.bound or klass in known:
                self.report(node, "a class pattern names its attributes in restricted code: case Point(x=0, y=y)")

    # --- nodes; types without a visitor only bind names or contain other nodes

    def name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id, node)
        elif _dunder(node.id):
            if node.id not in allowed.READABLE:
                self.report(node, f"the name {node.id} is not available in restricted code")
        else:
            self.read.append((node.id, node))

    def attribute(self, node):
        receiver = _receiver(node.value)
        name = node.attr
        if receiver == "super()" and name in allowed.METHODS:
            return
        reason = attribute(name)
        self.report(node, reason)
        if reason is None and private(name) and receiver != "super()":
            self.privates.append((receiver, node))

    def call(self, node):
        """Report getattr(x, "__class__") early; replacements.py would report it at run time."""
        if isinstance(node.func, ast.Name) and node.func.id in _ATTRIBUTES and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.report(node, attribute(name.value))

    def klass(self, node):
        self.bind(node.name, node)
        self.classes.add(node.name)
        for k in node.keywords:
            if k.arg == "metaclass" or k.arg is None:
                self.report(node, "a metaclass is not available in restricted code: derive from abc.ABC or enum.Enum")

    def match_class(self, node):
        """Check the attributes that a pattern reads: named by keyword, or by the class for positions."""
        for name in node.kwd_attrs:
            reason = attribute(name)
            self.report(node, reason)
            if reason is None and private(name):
                self.privates.append(("", node))
        if node.patterns:
            self.positional.append((node.cls.id if isinstance(node.cls, ast.Name) else "", node))

    def import_(self, node):
        for alias in node.names:
            self.report(node, module(alias.name))

    def import_from(self, node):
        if node.level:
            self.report(node, "a relative import is not available in restricted code")
            return
        reason = module(node.module)
        self.report(node, reason)
        if reason is not None:
            return
        if node.module.partition(".")[0] in allowed.PACKAGES:
            for alias in node.names:
                self.report(node, inner(node.module, alias.name))
            return
        names = self.names_of(node.module)
        for alias in node.names:
            if alias.name != "*" and alias.name not in names:
                self.report(node, lacking(node.module, alias.name))

    def alias(self, node):
        self.bind(node.asname or node.name.partition(".")[0], node)

    def keyword(self, node):
        if node.arg is not None:
            self.report(node, binding(node.arg))


def inner(module_name, name):
    """Return the reason why name cannot be imported from a module of skills or servers, or None."""
    generated = module_name.partition(".")[0] == "servers"
    if generated and name[:1] == "_" or attribute(name) is not None or name in ("__name__", "__doc__"):
        return lacking(module_name, name)
    return None


def lacking(module_name, name):
    return f"{module_name}.{name} is not available in restricted code"


def _receiver(node):
    """Return the name whose attribute is used, "super()", or ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
        return "super()"
    return ""


def _name(node):
    return node.attr if isinstance(node, ast.Attribute) else next(n for n in node.kwd_attrs if private(n))


_VISITORS = {
    ast.Name: _Walk.name,
    ast.Attribute: _Walk.attribute,
    ast.Call: _Walk.call,
    ast.ClassDef: _Walk.klass,
    ast.MatchClass: _Walk.match_class,
    ast.Import: _Walk.import_,
    ast.ImportFrom: _Walk.import_from,
    ast.alias: _Walk.alias,
    ast.keyword: _Walk.keyword,
}
