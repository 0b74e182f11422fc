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
    returned unchanged.
    """
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    tree = _parsed(source)
    if any(isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and n.name == name for n in tree.body):
        return source, []
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
