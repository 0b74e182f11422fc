"""Examines code without running it, for the check of workflows.

A workflow is compiled to Python from parts: expressions, and the code of steps. The
parts are examined as a person wrote them, so that errors have their positions.
"""

import ast
import builtins
import difflib
import keyword

from . import preflight

_METHODS = frozenset(m for m in dir(dict) if m[0] != "_")
_MOST = 100  # problems
_NO_PYTHON = "this is not Python"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FIELDS = ("result", "error")  # of a step
_OURS = ("steps", "inputs", "servers", "skills", "error")  # names of compiled code


def examined(code, parts, scopes, ready):
    """Return {"parts": problems of parts, "keyed": [{"part", "source"}], "error": of code as a whole, "uses": the tools it uses}.

    A source of keyed has the meaning that the one of the part shall have; see _keyed.

    Without a problem of a part, an error is one that the parts do not have by themselves.

    A part is {"source", "code": whether it is statements, "known": names, "scope": index in scopes, "use":
    "list", "variable" (of a loop) or "", "always": [problem of a condition that is always false, of one that
    is always true] or None}, a problem {"part", "line", "column", "message", "hint", "syntax": whether the part
    is not Python}; lines and columns count from 1. A scope is {"outer": index of the one around it or -1,
    "steps": names, "loop": name of a variable or "", "inputs": names or None for any, "hidden": {name of a
    step inside another one: that one}}.
    """
    names = frozenset(ready) | frozenset(dir(builtins))
    inside = []
    for scope in scopes:
        inside.append(_Visible(scope, inside))
    problems, keyed = [], []
    for i, part in enumerate(parts):
        if len(problems) >= _MOST:
            break
        found, source = _problems(part, names, inside[part["scope"]])
        if source != part["source"]:
            keyed.append({"part": i, "source": source})
        for line, column, message, hint in found:
            problems.append({"part": i, "line": line, "column": column, "message": message, "hint": hint, "syntax": message.startswith(_NO_PYTHON)})
    found = {"parts": problems[:_MOST], "keyed": keyed}
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


class _Visible:
    """What an expression in a list of steps can refer to."""

    def __init__(self, scope, before):
        outer = before[scope["outer"]] if scope["outer"] >= 0 else None
        self.steps = (outer.steps if outer else frozenset()) | frozenset(scope["steps"] or ())
        self.loops = (outer.loops if outer else frozenset()) | frozenset([scope["loop"]] if scope["loop"] else ())
        self.inputs, self.hidden = (outer.inputs, outer.hidden) if outer else (scope["inputs"], scope["hidden"] or {})


def _problems(part, names, scope):
    """Return the problems of a part, and its source with keys; see _keyed."""
    source = part["source"]
    if part["use"] == "variable":
        if source not in names and source not in _OURS and not keyword.iskeyword(source):
            return [], source
        return [(1, 1, f"the variable {source} of a loop hides another name", "choose another name with as")], source
    try:
        tree = ast.parse(part["source"] if part["code"] else "(" + part["source"] + "\n)", mode="exec" if part["code"] else "eval")
    except SyntaxError as e:
        last = part["source"].count("\n") + 1
        line = min(e.lineno or 1, last)
        column = max((e.offset or 1) - (not part["code"] and line == 1), 1)
        return [(line, column if line == e.lineno else 1, f"{_NO_PYTHON}: {e.msg}", "")], source
    except (ValueError, RecursionError, MemoryError) as e:
        return [(1, 1, f"{_NO_PYTHON}: {e or type(e).__name__}", "")], source
    shift = 0 if part["code"] else 1
    found = _unknown(tree, part, names, scope)
    found += _discarded(tree) if part["code"] else _misused(tree.body, part) + _references(tree, scope)
    found = [(line, column + 1 - (shift if line == 1 else 0), message, hint) for line, column, message, hint in found]
    return found, source if part["code"] else _keyed(source, tree, scope)


def _keyed(source, tree, scope):
    """Return an expression in which an attribute of a value that is also a method, and is not called, is a key.

    All other keys are attributes of the values themselves.
    """
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in _METHODS and id(n) not in called]
    data = b"(" + source.encode()
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    edits = []
    for n in found:
        if not _is(n.value, "steps") and _is_data(n.value, scope):
            end = starts[n.end_lineno - 1] + n.end_col_offset
            edits.append((data.rindex(b".", 0, end), end, n.attr))
    for dot, end, name in sorted(edits, reverse=True):
        data = data[:dot] + f'["{name}"]'.encode() + data[end:]
    return data[1:].decode()


def _at(node):
    """Return the line and the column of a node; of an attribute, those of its name."""
    if isinstance(node, ast.Attribute):
        return node.end_lineno, node.end_col_offset - len(node.attr.encode())
    return node.lineno, node.col_offset


def _meant(name, known, none=""):
    """Return a hint with the name that is similar, or with all."""
    if near := difflib.get_close_matches(name, sorted(known), 1):
        return f"did you mean {near[0]}?"
    return none if not known else "there are " + ", ".join(sorted(known)) if len(known) <= 20 else ""


def _references(tree, scope):
    """Find uses of steps and inputs that do not exist."""
    found, named, called = [], set(), {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    for n in ast.walk(tree):
        if len(found) >= _MOST:
            break
        if isinstance(n, ast.Name) and n.id == "steps" and n not in named:
            found.append((*_at(n), "steps is used without the name of a step", "write steps.NAME.result"))
        if isinstance(n, ast.Subscript) and _is(n.value, "inputs") and isinstance(n.slice, ast.Constant):
            found += _input(n.slice, n.slice.value, scope)
        if not isinstance(n, ast.Attribute):
            continue
        of = n.value
        if _is(of, "inputs") and id(n) not in called:
            found += _input(n, n.attr, scope)
        elif _is(of, "steps"):
            named.add(of)
            found += _step(n, n.attr, scope)
            if n not in named:
                found.append((*_at(n), "a step has result and error only", f"write steps.{n.attr}.result"))
        elif isinstance(of, ast.Attribute) and _is(of.value, "steps"):
            named.add(of)
            if n.attr not in _FIELDS:
                found.append((*_at(n), "a step has result and error only", _meant(n.attr, _FIELDS)))
    return found


def _input(node, name, scope):
    if scope.inputs is None or name in scope.inputs or not isinstance(name, str):
        return []
    return [(*_at(node), f'there is no input "{name:.60}"', _meant(name, scope.inputs, "inputs declares none"))]


def _step(node, name, scope):
    if name in scope.steps:
        return []
    if around := scope.hidden.get(name):
        return [(*_at(node), f"step {name} is inside step {around} and not visible here", f"refer to steps.{around}.result")]
    return [(*_at(node), f'there is no step "{name:.60}"', _meant(name, scope.steps))]


def _is(node, name):
    return isinstance(node, ast.Name) and node.id == name


def _is_data(node, scope):
    """Report whether node is a part of the value of a step, an input or the variable of a loop."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and (node.id in ("steps", "inputs") or node.id in scope.loops)


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


def _unknown(tree, part, names, scope):
    bound = _bound(tree)
    if bound is None:
        return []
    known = names | bound | frozenset(part["known"] or ()) | {"inputs"} | (frozenset() if part["code"] else scope.loops | {"steps"})
    found = []
    for n in ast.walk(tree):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id not in known:
            if n.id == "steps":
                found.append((*_at(n), "code does not see steps", "pass the values that it needs in variables"))
                continue
            near = difflib.get_close_matches(n.id, sorted(known), 1) if len(found) < _MOST else ()
            hint = f"did you mean {near[0]}?" if near else ""
            if n.id in scope.steps:
                hint = f"pass steps.{n.id}.result in variables" if part["code"] else f"write steps.{n.id}.result"
            found.append((*_at(n), f"there is no name {n.id!r}", hint))
    return found


def _misused(node, part):
    """Find a condition that always has one value, and a value that no loop can be over."""
    always = _truth(node) if part["always"] else None
    if always is not None:
        problem = part["always"][always]
        return [(*_at(node), problem["message"], problem["hint"])]
    if part["use"] == "list" and isinstance(node, (ast.Constant, ast.JoinedStr, ast.Compare, ast.UnaryOp, ast.Lambda)):
        return [(*_at(node), "this value is no list", "")]
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
    return [(*_at(last), "the value of the last line is not the result of the step", "write result = …")]

