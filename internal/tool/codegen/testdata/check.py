"""Checks that generated Python has only the allowed syntax.

Reads one JSON object per line: {"files": {path: source}, "signature": text, "example": text}.
Writes one JSON array per line: the errors found.
"""

import ast
import json
import keyword
import sys
import warnings

warnings.simplefilter("error")

TYPES = {"Any", "Literal", "NotRequired", "TypedDict", "bool", "dict", "float", "int", "list", "str", "tuple"}
GENERIC = {"Literal", "NotRequired", "dict", "list", "tuple"}
# Modules that do not depend on tool definitions.
FIXED = {"resources.py", "prompts.py"}


class CheckError(Exception):
    pass


def need(ok, node, what):
    if not ok:
        where = f"line {node.lineno}: {ast.unparse(node)[:200]}" if hasattr(node, "lineno") else ""
        raise CheckError(f"{what}: {where}")


def is_text(node):
    return isinstance(node, ast.Constant) and type(node.value) is str


def is_scalar(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
        return isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return isinstance(node, ast.Constant) and type(node.value) in (str, int, float, bool, type(None))


class Tool:
    """The module of one tool."""

    def __init__(self, name):
        self.name = name
        self.types = {}  # from names in the module to known types
        self.call = None

    def check(self, tree):
        body = list(tree.body)
        while body and isinstance(body[0], (ast.Import, ast.ImportFrom)):
            self.imported(body.pop(0))
        need(self.call, tree, "_sandpiper is not imported")
        for builtin in ("bool", "dict", "float", "int", "list", "str", "tuple"):
            if builtin != self.name:
                self.types.setdefault(builtin, builtin)
        while len(body) > 1:
            self.typed_dict(body.pop(0))
        self.function(body[0])

    def imported(self, node):
        if isinstance(node, ast.Import):
            need(self.call is None and [a.name for a in node.names] == ["_sandpiper"], node, "an import")
            self.call = node.names[0].asname or "_sandpiper"
            need(self.call.startswith("_sandpiper") and not self.call.removeprefix("_sandpiper").strip("_"), node, "an alias")
            return
        need(node.module in ("typing", "builtins") and node.level == 0, node, "an import")
        for a in node.names:
            need(a.name in TYPES and (a.asname in (None, "_" + a.name)), node, "an import")
            self.types[a.asname or a.name] = a.name

    def typed_dict(self, node):
        if isinstance(node, ast.ClassDef):
            need(not node.keywords and not node.decorator_list and not node.type_params and len(node.bases) == 1, node, "a class")
            self.is_typed_dict(node.bases[0])
            for key in node.body:
                need(isinstance(key, ast.AnnAssign) and key.value is None and isinstance(key.target, ast.Name), key, "a key")
                need(key.target.id not in self.types and not key.target.id.startswith("__"), key, "a key that hides a type")
                self.type(key.annotation)
            name = node.name
        else:
            need(isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name), node, "a statement")
            name, call = node.targets[0].id, node.value
            need(isinstance(call, ast.Call) and len(call.args) == 2 and not call.keywords, node, "a class")
            self.is_typed_dict(call.func)
            need(is_text(call.args[0]) and call.args[0].value == name and isinstance(call.args[1], ast.Dict), node, "a class")
            for key, value in zip(call.args[1].keys, call.args[1].values):
                need(key is not None and is_text(key), node, "a key")
                self.type(value)
        need(name.isascii() and name not in self.types and name != self.name, node, "the name of a class")
        self.types[name] = "class"

    def is_typed_dict(self, node):
        need(isinstance(node, ast.Name) and self.types.get(node.id) == "TypedDict", node, "a base class")

    def type(self, node):
        if isinstance(node, ast.BinOp):
            need(isinstance(node.op, ast.BitOr), node, "a type")
            self.type(node.left), self.type(node.right)
        elif isinstance(node, ast.Subscript):
            need(isinstance(node.value, ast.Name) and self.types.get(node.value.id) in GENERIC, node, "a type")
            args = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for arg in args:
                if self.types[node.value.id] == "Literal":
                    need(is_scalar(arg), arg, "a literal")
                else:
                    self.type(arg)
        elif isinstance(node, ast.Name):
            need(self.types.get(node.id) not in (None, "Literal", "NotRequired", "TypedDict"), node, "a type")
        else:
            need(isinstance(node, ast.Constant) and node.value is None, node, "a type")

    def function(self, node):
        need(isinstance(node, ast.FunctionDef) and node.name == self.name, node, "a function")
        a = node.args
        need(not (node.decorator_list or node.type_params or a.posonlyargs or a.kwonlyargs or a.vararg), node, "a function")
        for arg in a.args + ([a.kwarg] if a.kwarg else []):
            need(not arg.arg.startswith("__") and arg.arg != self.call, arg, "a parameter")
            self.type(arg.annotation)
        need(all(is_scalar(d) or self.is_absent(d) for d in a.defaults), node, "a default")
        self.type(node.returns)
        need(len(node.body) == 2 and isinstance(node.body[0], ast.Expr) and is_text(node.body[0].value), node, "a body")
        readable(node.body[0].value.value)
        nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
        self.returned(node.body[1], nothing, [arg.arg for arg in a.args], a.kwarg and a.kwarg.arg)

    def is_absent(self, node):
        return isinstance(node, ast.Attribute) and node.attr == "absent" and isinstance(node.value, ast.Name) and node.value.id == self.call

    def returned(self, node, nothing, params, more):
        call = node.value
        # A type checker rejects a value returned from a function that returns None.
        need(isinstance(node, ast.Expr if nothing else ast.Return) and isinstance(call, ast.Call) and not call.keywords and len(call.args) == 4, node, "a return")
        f = call.func
        need(isinstance(f, ast.Attribute) and f.attr == "call" and isinstance(f.value, ast.Name) and f.value.id == self.call, node, "a call")
        need(is_text(call.args[0]) and is_text(call.args[1]), node, "an argument")
        passed = []
        for d in call.args[2:]:
            need(isinstance(d, ast.Dict), node, "an argument")
            for key, value in zip(d.keys, d.values):
                need((is_text(key) if key else value.id == more) and isinstance(value, ast.Name), node, "an argument")
                passed.append(value.id)
        need(sorted(passed) == sorted(params + ([more] if more else [])), node, "the arguments")


def package(tree):
    """Checks the __init__.py of a server: only the docstring and the names vary."""
    need(is_text(tree.body[0].value), tree, "a docstring")
    readable(tree.body[0].value.value)
    source = [ast.unparse(node) for node in tree.body[1:]]
    names = tree.body[3].body[0].value.args[0]
    need(isinstance(names, ast.Tuple) and all(is_text(e) and e.value.isidentifier() for e in names.elts), tree, "the names of tools")
    source[2] = source[2].replace(ast.unparse(names), "()")
    need(source[:2] == ["import sys as _sys", "from servers import _Package"], tree, "a package")
    need(source[2].startswith("class _This(_Package):\n    _tools = frozenset(())\n    _parts = frozenset(('aio',") and source[2].count("\n") == 2, tree, "a package")
    need(source[3:] == ["_sys.modules[__name__].__class__ = _This"], tree, "a package")


def readable(text):
    """Checks that a docstring has no invisible or bidirectional control characters."""
    bad = [c for c in text if c != "\n" and not c.isprintable()]
    if bad:
        raise CheckError(f"the docstring has {bad[:5]}")


def check(path, source):
    server, _, file = path.partition("/")
    name = file.removesuffix(".py")
    for word in {server, name} - {"__init__", "__init__.py", ""}:
        if not word.isidentifier() or keyword.iskeyword(word) or word.startswith("_"):
            raise CheckError(f"{word!r} is not a name")
    if not all(c.isascii() or ("a" + c).isidentifier() for c in source):
        raise CheckError("there are non-ASCII characters outside names")
    tree = ast.parse(source)
    compile(source, path, "exec", dont_inherit=True)
    if file == "__init__.py":
        package(tree)
    elif file == "aio.py":
        need(is_text(tree.body[0].value) and len(tree.body) == 4, tree, "a package")
    elif file in FIXED:
        last = tree.body[-1]
        need(is_text(tree.body[0].value) and last.targets[0].id == "_SERVER" and is_text(last.value), last, "a part")
    elif file:
        Tool(name).check(tree)


def usage(request):
    if "signature" in request:
        tree = ast.parse("def " + request["signature"].replace("(...)", "()") + ": ...")
        need(len(tree.body) == 1 and len(tree.body[0].body) == 1, tree, "a signature")
        tree = ast.parse(request["example"], mode="eval").body
        need(isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name), tree, "an example")
        for value in [k.value for k in tree.keywords] + tree.args:
            ast.literal_eval(value)


for line in sys.stdin:
    request, errors = json.loads(line), []
    for path, source in request.get("files", {}).items():
        try:
            check(path, source)
        except Exception as e:
            errors.append(f"{path}: {type(e).__name__}: {e}")
    try:
        usage(request)
    except Exception as e:
        errors.append(f"{request['signature']} {request['example']}: {type(e).__name__}: {e}")
    print(json.dumps(errors), flush=True)
