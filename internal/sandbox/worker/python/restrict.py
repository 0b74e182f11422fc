"""The check that restricted code passes before anything of it runs.

It looks at the syntax tree, where the parser has already normalised every name
(`ﬁ` is `fi`), and reports each import, name and attribute that allowed.py does
not allow. What depends on values while the code runs, such as the string given
to getattr or exec, is the business of fence.py.

This is a guardrail for code that means well and a first obstacle for code that
does not. The sandbox is the kernel's, and counts on none of this.
"""

import ast

from . import allowed

_SHOWN = 3  # findings named in one message
_SILENT = frozenset({ast.Constant, ast.Load, ast.Store, ast.Del})  # nodes that hold no name
_TEXT = frozenset({"type_comment", "str"})  # fields of text that is none
_ATTRIBUTES = frozenset({"getattr", "hasattr", "setattr", "delattr"})
_FILES = frozenset({"os", "pathlib", "shutil", "glob", "tempfile", "os.path", "codecs", "zipfile", "tarfile", "sqlite3"})


class RestrictedError(Exception):
    """Restricted code wanted what it may not have; the text says what, where, and what to use."""


# Like ToolError, it is shown without a package.
RestrictedError.__module__ = "builtins"


class Refused(RestrictedError):
    """The whole code was refused: nothing of it has run."""


Refused.__name__ = "RestrictedError"


def check(tree, known, names_of):
    """Return what is wrong with tree as (line, text), in the order of lines.

    known are the variables that there are already, names_of(module) the names
    that are to be had of an allowed module.
    """
    walk = _Walk(names_of)
    walk.over(tree)
    walk.missing(known)
    return sorted(walk.found)


def explain(found, filename=""):
    """Return the message for what check found."""
    place = f"{filename}, line" if filename else "line"
    lines = [f"{place} {line}: {text}" for line, text in found[:_SHOWN]]
    rest = len(found) - _SHOWN
    if rest > 0:
        lines.append(f"and {rest} more")
    return "; ".join(lines)


def attribute(name):
    """Return why the attribute name is not to be had of just anything, or None."""
    if name in allowed.INSIDES:
        return f"the attribute {name} is not available in restricted code"
    if _dunder(name) and name not in allowed.READABLE:
        return f"the attribute {name} is not available in restricted code: {_ADVICE.get(name, _NO_DUNDER)}"
    return None


_NO_DUNDER = "of names between double underscores only __name__, __qualname__ and __doc__ can be read"
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
    """Report whether name is for the methods of its own class alone."""
    return name[0] == "_" and not _dunder(name) and name not in allowed.PUBLIC


def binding(name):
    """Return why the code may not give a meaning to name, or None."""
    if _dunder(name) and name not in allowed.SETTABLE:
        return f"the name {name} is not available in restricted code"
    return None


def module(name):
    """Return why the module name cannot be imported, or None."""
    if name in allowed.MODULES or name.partition(".")[0] in allowed.PACKAGES:
        return None
    if any(m.startswith(name + ".") for m in allowed.MODULES):
        return None
    files = " (for files: read_file, write_file, list_files, delete_file)" if name in _FILES else ""
    return f"the module {name} is not available in restricted code{files}; these are: {', '.join(MODULES)}, skills and servers"


MODULES = [name for name in allowed.MODULES if name != "__future__"]


def _dunder(name):
    return name[:2] == "__" and name[-2:] == "__"


class _Walk:
    """One look at every node of a tree, in no particular order."""

    def __init__(self, names_of):
        self.names_of = names_of
        self.found = set()
        self.bound = set()  # names to which the code gives a meaning somewhere
        self.classes = set()  # the classes among them
        self.read = []  # (name, node) of what it reads
        self.privates = []  # (receiver, node) of attributes with an underscore
        self.positional = []  # (class, node) of patterns by position

    def over(self, tree):
        todo = [tree]
        while todo:
            node = todo.pop()
            look = _LOOKS.get(type(node))
            if look is not None:
                look(self, node)
            for field in node._fields:
                value = getattr(node, field, None)
                for part in value if type(value) is list else (value,):
                    if isinstance(part, ast.AST):
                        if type(part) not in _SILENT:
                            todo.append(part)
                    elif type(part) is str and look is None and field not in _TEXT:
                        self.bind(part, node)

    def say(self, node, text):
        if text is not None:
            self.found.add((getattr(node, "lineno", 0), text))

    def bind(self, name, node):
        self.bound.add(name)
        self.say(node, binding(name))

    def missing(self, known):
        """Look at what was read, now that it is known what the code defines."""
        for name, node in self.read:
            if name in allowed.INSTEAD and name not in self.bound and name not in known:
                self.say(node, f"{name} is not available in restricted code: {allowed.INSTEAD[name]}")
        for receiver, node in self.privates:
            if receiver not in allowed.OWN and receiver not in self.classes:
                self.say(node, f"the attribute {_name(node)} is private: restricted code uses those of self and cls only")

        for klass, node in self.positional:
            if klass not in allowed.MATCHED or klass in self.bound or klass in known:
                self.say(node, "a class pattern names its attributes in restricted code: case Point(x=0, y=y)")

    # --- nodes; those that are not here only bind names or hold other nodes

    def name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id, node)
        elif _dunder(node.id):
            if node.id not in allowed.READABLE:
                self.say(node, f"the name {node.id} is not available in restricted code")
        else:
            self.read.append((node.id, node))

    def attribute(self, node):
        receiver = _receiver(node.value)
        name = node.attr
        if receiver == "super()" and name in allowed.METHODS:
            return
        reason = attribute(name)
        self.say(node, reason)
        if reason is None and private(name) and receiver != "super()":
            self.privates.append((receiver, node))

    def call(self, node):
        """Find getattr(x, "__class__") early; fence.py would when it runs."""
        if isinstance(node.func, ast.Name) and node.func.id in _ATTRIBUTES and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.say(node, attribute(name.value))

    def klass(self, node):
        self.bind(node.name, node)
        self.classes.add(node.name)
        for k in node.keywords:
            if k.arg == "metaclass" or k.arg is None:
                self.say(node, "a metaclass is not available in restricted code: derive from abc.ABC or enum.Enum")

    def match_class(self, node):
        """A pattern reads attributes: by keyword those that it names, by position those that the class names."""
        for name in node.kwd_attrs:
            reason = attribute(name)
            self.say(node, reason)
            if reason is None and private(name):
                self.privates.append(("", node))
        if node.patterns:
            self.positional.append((node.cls.id if isinstance(node.cls, ast.Name) else "", node))

    def import_(self, node):
        for alias in node.names:
            self.say(node, module(alias.name))

    def import_from(self, node):
        if node.level:
            self.say(node, "a relative import is not available in restricted code")
            return
        reason = module(node.module)
        self.say(node, reason)
        if reason is not None:
            return
        if node.module.partition(".")[0] in allowed.PACKAGES:
            for alias in node.names:
                self.say(node, inner(node.module, alias.name))
            return
        names = self.names_of(node.module)
        for alias in node.names:
            if alias.name != "*" and alias.name not in names:
                self.say(node, lacking(node.module, alias.name))

    def alias(self, node):
        self.bind(node.asname or node.name.partition(".")[0], node)

    def keyword(self, node):
        if node.arg is not None:
            self.say(node, binding(node.arg))


def inner(module_name, name):
    """Return why name cannot be imported from a module of a package that restricted code did not write, or None."""
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


_LOOKS = {
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
