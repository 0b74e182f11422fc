"""Makes a function of the code of an execution, to be saved as a skill.

The body is the code with every line indented, so that comments stay. The result is
verified: the body must parse to the syntax tree of the code.
"""

import ast
import builtins
import io
import symtable
import tokenize

_STARTS = frozenset({tokenize.FSTRING_START, tokenize.TSTRING_START})
_ENDS = frozenset({tokenize.FSTRING_END, tokenize.TSTRING_END})
_INDENT = "    "


class Unsuitable(ValueError):
    """The code cannot be made a function."""


def function(source, name, ready):
    """Return (code, parameters) that define the function name, whose body is source.

    Names that source uses but neither it nor ready defines become parameters. The
    function returns what the execution returned. Code that defines name itself is
    returned without the statements that its definitions do not need.
    """
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    tree = _parsed(source)
    if any(isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and n.name == name for n in tree.body):
        return _definitions(source, tree), []
    _check(tree)
    start = "async def" if _awaits(tree) else "def"
    plain = source.rstrip().split("\n")
    tables = symtable.symtable(_defined(start, name, [], plain), "<skill>", "exec").get_children()
    table = next(t for t in tables if t.get_name() == name)  # besides those of annotations
    missing = _globals(table) - set(ready) - set(dir(builtins)) - {"__name__", "__file__", "__doc__"}
    parameters = [n for n in dict.fromkeys(_names(tree)) if n in missing]
    lines, restore = _returning(plain, tree, "result" in _assigned(table))
    made = _defined(start, name, parameters, lines)
    if ast.dump(ast.Module(restore(_parsed(made).body[0].body), [])) != ast.dump(tree):
        raise Unsuitable("its layout cannot be indented")
    return made, parameters


def _parsed(source):
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(source, "<skill>", "exec", flags, dont_inherit=True)


_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _definitions(source, tree):
    """Return source without the statements that would only repeat the execution at each import.

    Kept are definitions, imports, and what gives a value to a name that these use.
    """
    kept = {i for i, n in enumerate(tree.body) if isinstance(n, _DEFINING)}
    fixed = {name for i in kept for name in _bound(tree.body[i])}
    if ast.get_docstring(tree) is not None:
        kept.add(0)
    while True:
        used = {n.id for i in kept for n in ast.walk(tree.body[i]) if isinstance(n, ast.Name)}
        more = {i for i, n in enumerate(tree.body) if used & (_bound(n) | _changed(n) - fixed)} - kept
        if not more:
            break
        kept |= more
    if len(kept) == len(tree.body):
        return source
    lines = source.split("\n")
    rest = {n for i in kept for n in _lines(tree.body[i])}
    for i, node in enumerate(tree.body):
        if i not in kept:
            if rest & set(_lines(node)):
                raise Unsuitable(f"line {node.lineno} has a definition and a statement that only runs")
            for n in _lines(node):
                lines[n - 1] = None
    return "\n".join(line for line in lines if line is not None).rstrip() + "\n"


def _lines(node):
    first = min(d.lineno for d in [node, *getattr(node, "decorator_list", ())])
    return range(first, node.end_lineno + 1)


def _bound(node):
    """Return the names that a statement binds at the top level."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    names = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            names.add(n.id)
        elif isinstance(n, ast.alias):
            names.add((n.asname or n.name).split(".")[0])
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(n.name)
    return names


def _changed(node):
    """Return the names of the values that a statement changes: items, attributes and methods."""
    names = set()
    for n in ast.walk(node):
        base = None
        if isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Store):
            base = n.value
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
            base = n.func.value
        if isinstance(base, ast.Name):
            names.add(base.id)
    return names


def _check(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            raise Unsuitable(f"line {node.lineno} has a {type(node).__name__.lower()} statement")
        if isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*"):
            raise Unsuitable(f"the import in line {node.lineno} is not possible in a function")


def _globals(table):
    """Return the global names that a scope and those inside it refer to."""
    names = {s.get_name() for s in table.get_symbols() if s.is_global()}
    return names.union(*map(_globals, table.get_children()))


def _assigned(table):
    return {s.get_name() for s in table.get_symbols() if s.is_assigned()}


def _names(tree):
    """Return all names in order of the source."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    return [n.id for n in sorted(found, key=lambda n: (n.lineno, n.col_offset))]


def _awaits(tree):
    """Report whether tree awaits outside of functions."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or isinstance(node, ast.comprehension) and node.is_async:
            return True
        if not isinstance(node, inner):
            waiting += ast.iter_child_nodes(node)
    return False


def _returning(lines, tree, assigned):
    """Return lines that also return the result, and a function that reverts that in their tree."""
    lines, last = lines.copy(), tree.body[-1] if tree.body else None
    if assigned:
        return [*lines, "return result"], lambda body: body[:-1]
    if not isinstance(last, ast.Expr):
        return lines, list
    line, at = lines[last.lineno - 1].encode(), last.col_offset
    lines[last.lineno - 1] = (line[:at] + b"return " + line[at:]).decode()
    return lines, lambda body: [*body[:-1], ast.Expr(body[-1].value)]


def _defined(start, name, parameters, lines):
    """Return the definition of a function with these lines as its body."""
    inside = _inside_strings("\n".join(lines))
    body = "\n".join(line if i in inside or not line else _INDENT + line for i, line in enumerate(lines))
    return f"{start} {name}({', '.join(parameters)}):\n{body}\n"


def _inside_strings(source):
    """Return the indexes of the lines that begin inside a string."""
    inside, starts = set(), []
    for t in tokenize.generate_tokens(io.StringIO(source).readline):
        if t.type in _STARTS:
            starts.append(t.start[0])
        elif t.type in _ENDS:
            inside.update(range(starts.pop(), t.end[0]))
        elif t.type == tokenize.STRING:
            inside.update(range(t.start[0], t.end[0]))
    return inside
