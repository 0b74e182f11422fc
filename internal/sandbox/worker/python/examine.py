"""Examines code without running it, for the check of workflows.

A workflow is compiled to Python from parts: expressions, and the code of steps. The
parts are examined as a person wrote them, so that errors have their positions.
"""

import ast
import builtins
import difflib

from . import preflight

_METHODS = frozenset(dir(dict) + dir(list) + dir(str) + dir(int) + dir(float))
_MOST = 100  # problems
_NO_PYTHON = "this is not Python"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def examined(code, parts, ready):
    """Return {"parts": problems of parts, "error": of code as a whole, "uses": the tools it uses}.

    Without a problem of a part, an error is one that the parts do not have by themselves.

    A part is {"source", "code": whether it is statements, "known": names, "steps": names of steps,
    "use": "test", "list" or ""}, a problem {"part", "line", "column", "message", "hint", "syntax": whether
    the part is not Python}; lines and columns count from 1.
    """
    names = frozenset(ready) | frozenset(dir(builtins))
    problems = []
    for i, part in enumerate(parts):
        if len(problems) >= _MOST:
            break
        for line, column, message, hint in _problems(part, names):
            problems.append({"part": i, "line": line, "column": column, "message": message, "hint": hint, "syntax": message.startswith(_NO_PYTHON)})
    found = {"parts": problems[:_MOST]}
    try:
        tree = compile(code, "<workflow>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        compile(tree, "<workflow>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as e:
        return found if problems else found | {"error": {"line": e.lineno or 1, "message": e.msg}}
    except (ValueError, RecursionError, MemoryError) as e:
        return found if problems else found | {"error": {"line": 1, "message": str(e) or type(e).__name__}}
    uses = preflight._Uses(tree)
    uses.visit(tree)
    return found | {"uses": uses.described() or {}}


def _problems(part, names):
    try:
        tree = ast.parse(part["source"] if part["code"] else "(" + part["source"] + "\n)", mode="exec" if part["code"] else "eval")
    except SyntaxError as e:
        last = part["source"].count("\n") + 1
        line = min(e.lineno or 1, last)
        column = max((e.offset or 1) - (not part["code"] and line == 1), 1)
        return [(line, column if line == e.lineno else 1, f"{_NO_PYTHON}: {e.msg}", "")]
    except (ValueError, RecursionError, MemoryError) as e:
        return [(1, 1, f"{_NO_PYTHON}: {e or type(e).__name__}", "")]
    shift = 0 if part["code"] else 1
    found = _unknown(tree, part, names) + _keys(tree) + (_discarded(tree) if part["code"] else _misused(tree.body, part["use"]))
    return [(n.lineno, n.col_offset + 1 - (shift if n.lineno == 1 else 0), message, hint) for n, message, hint in found]


def _bound(tree):
    """Return the names that tree binds somewhere, or None if it may bind any."""
    bound = set()
    for n in ast.walk(tree):
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
            bound.add(n.id)
        elif isinstance(n, ast.arg):
            bound.add(n.arg)
        elif isinstance(n, _SCOPES):
            bound.add(n.name)
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            bound.update((a.asname or a.name).split(".")[0] for a in n.names)
        elif isinstance(n, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and n.name:
            bound.add(n.name)
        elif isinstance(n, ast.MatchMapping) and n.rest:
            bound.add(n.rest)
    return None if "*" in bound else bound


def _unknown(tree, part, names):
    bound = _bound(tree)
    if bound is None:
        return []
    own, steps = part["known"] or (), part["steps"] or ()
    known = names | bound | frozenset(own)
    found = []
    for n in ast.walk(tree):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id not in known:
            if part["code"] and n.id == "steps":
                found.append((n, "code does not see steps", "pass the values that it needs in variables"))
                continue
            near = difflib.get_close_matches(n.id, sorted(known), 1) if len(found) < _MOST else ()
            hint = f"did you mean {near[0]}?" if near else ""
            if n.id in steps:
                hint = f"pass steps.{n.id}.result in variables" if part["code"] else f"write steps.{n.id}.result"
            found.append((n, f"there is no name {n.id!r}", hint))
    return found


def _keys(tree):
    """Find attributes of names that a comprehension binds: they are plain values, whose keys are no attributes."""
    found = []
    for n in ast.walk(tree):
        if not isinstance(n, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            continue
        if not any(_is_data(g.iter) for g in n.generators):
            continue
        targets = {t.id for g in n.generators if isinstance(g.target, ast.Name) and _is_data(g.iter) for t in (g.target,)}
        for a in ast.walk(n):
            if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name) and a.value.id in targets and a.attr not in _METHODS:
                found.append((a, f"{a.value.id} is a plain value without the attribute {a.attr}", f'write {a.value.id}["{a.attr}"]'))
    return found


def _is_data(node):
    """Report whether node is a part of the value of a step or input."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("steps", "inputs")


def _misused(node, use):
    """Find a condition that always has one value, and a value that no loop can be over."""
    always = _truth(node) if use == "test" else None
    if always is not None:
        return [(node, f"this condition is always {str(always).lower()}", "")]
    if use == "list" and isinstance(node, (ast.Constant, ast.JoinedStr, ast.Compare, ast.UnaryOp, ast.Lambda)):
        return [(node, "this value is no list", "")]
    return []


def _truth(node):
    """Return whether node is always true or always false, or None if that is not known."""
    if isinstance(node, ast.BoolOp):
        decided = isinstance(node.op, ast.Or)
        values = [_truth(v) for v in node.values]
        return decided if decided in values else None if None in values else not decided
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _truth(node.operand)
        return None if value is None else not value
    if isinstance(node, ast.Compare) and all(isinstance(v, ast.Constant) for v in (node.left, *node.comparators)):
        try:  # small: the values are in the code
            return bool(eval(compile(ast.Expression(node), "<condition>", "eval"), {"__builtins__": {}}))
        except TypeError:
            return None
    if isinstance(node, ast.JoinedStr):
        return True if any(isinstance(v, ast.Constant) for v in node.values) else None
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return None if any(isinstance(v, ast.Starred) for v in node.elts) else bool(node.elts)
    if isinstance(node, ast.Dict):
        return None if None in node.keys else bool(node.keys)
    if isinstance(node, (ast.Lambda, ast.GeneratorExp)):
        return True
    return bool(node.value) if isinstance(node, ast.Constant) else None


def _discarded(tree):
    """Find a last line whose value is not used, in code without a result."""
    last = tree.body[-1] if tree.body else None
    idle = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
    if not isinstance(last, ast.Expr) or isinstance(last.value, idle) or isinstance(last.value, ast.Constant):
        return []
    for n in ast.walk(tree):
        if isinstance(n, ast.Return) or isinstance(n, ast.Name) and n.id == "result":
            return []
    return [(last, "the value of the last line is not the result of the step", "write result = …")]

