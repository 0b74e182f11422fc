"""Compiles the source of a skill and replaces tokens in it by values.

A skill is stored as source, so the value of a token must be written as part of the
literal that contains the token. The result is verified: the new source must parse
to the syntax tree of the old one with its constants replaced.
"""

import ast
import functools
import io
import re
import tokenize

from . import preflight
from .privacy import Tokens

_FILENAME = "<skill>"
_FORMATTED = (ast.JoinedStr, ast.TemplateStr)  # whose empty parts the parser omits
_START = re.compile("""([A-Za-z]*)('''|\"""|'|")""")
_special = re.compile(r"[^\w .,:;@/+-]", re.ASCII).sub
_STARTS = frozenset({tokenize.FSTRING_START, tokenize.TSTRING_START})
_MIDDLES = frozenset({tokenize.FSTRING_MIDDLE, tokenize.TSTRING_MIDDLE})
_ENDS = frozenset({tokenize.FSTRING_END, tokenize.TSTRING_END})


def checked(source, tokens):
    """Return the verdict, with the "tools" that source uses if it compiles."""
    found = verdict(source, tokens) or {}
    if "message" not in found:
        found["tools"] = preflight.tools(_parsed(found.get("source", source)))
    return found


def verdict(source, tokens):
    """Return None, {"source"} if tokens were replaced, or {"line", "message"} with "token": True if a token is the cause."""
    try:
        made = restored(source, Tokens(tokens)) if tokens else source
        compile(made, _FILENAME, "exec", dont_inherit=True)
    except _Unwritable as e:
        return {"line": e.lineno, "message": e.msg, "token": True}
    except SyntaxError as e:
        return {"line": e.lineno or 0, "message": e.msg}
    except (ValueError, RecursionError, MemoryError, OverflowError) as e:
        return {"line": 0, "message": str(e) or type(e).__name__}
    return None if made == source else {"source": made}


class _Unwritable(SyntaxError):
    """A token in a position in which its value cannot be written."""

    def __init__(self, line):
        super().__init__("the token is in a string that cannot contain its value", (_FILENAME, line, None, None))


def restored(source, tokens):
    """Return source with tokens replaced in its literals and comments; then line ends are \\n."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n")  # as the compiler reads it; tokenize does not
    want = _parsed(lines)
    made = _rewritten(lines, tokens)
    if not tokens.restore_constants(want) and made == lines:
        return source
    try:
        got = _parsed(made)
    except SyntaxError as e:
        raise _Unwritable(e.lineno or 0) from None
    if line := _first_divergent_line(want, got):
        raise _Unwritable(line)
    return made


def _parsed(source):
    return compile(source, _FILENAME, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)


def _rewritten(source, tokens):
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    parts, end = [], 0
    for line, first, last, write in _pieces(source, starts):
        text = source[first:last]
        for at, token in tokens.found(text):
            written = write(tokens.values[token], text[:at])
            if written is None:
                raise _Unwritable(line)
            parts += source[end : first + at], written
            end = first + at + len(token)
    return "".join(parts) + source[end:]


def _pieces(source, starts):
    """Yield (line, start, end, writer) for comments, literals and the text parts of f-strings."""
    around = []  # writers of the open f-strings
    for kind, string, (row, column), (last_row, last_column), _ in tokenize.generate_tokens(io.StringIO(source).readline):
        if kind in _STARTS:
            around.append(_Kind(string).formatted)
            continue
        if kind in _ENDS:
            around.pop()
            continue
        if kind == tokenize.COMMENT:
            write = _comment
        elif kind == tokenize.STRING:
            write = _Kind(string).plain
        elif kind in _MIDDLES:
            write = around[-1]
        else:
            continue
        yield row, starts[row - 1] + column, starts[last_row - 1] + last_column, write


def _comment(value, before):
    return _special(lambda c: c[0] if c[0].isprintable() else " ", value)


class _Kind:
    """Writes values in one kind of literal; None if a value cannot be written.

    before is the text of the literal before the value.
    """

    def __init__(self, literal):
        prefix, self._quote = _START.match(literal).groups()
        self._prefix = prefix.lower()

    def plain(self, value, before):
        if "r" in self._prefix:
            return value if self._holds(value) else None
        lone = (len(before) - len(before.rstrip("\\"))) % 2  # a backslash that would escape the value
        return "\\" * lone + _escaped(value, self._quote[0], "b" in self._prefix)

    def formatted(self, value, before):
        written = self.plain(value, before)
        return written and written.replace("{", "{{").replace("}", "}}")

    def _holds(self, value):
        literal = self._prefix.strip("ft") + self._quote + value + self._quote
        try:
            return ast.literal_eval(literal) == (value.encode() if "b" in self._prefix else value)
        except (SyntaxError, ValueError):
            return False


@functools.cache
def _escaped(value, quote, of_bytes):
    shown = repr
    if of_bytes:
        value, shown = value.encode().decode("latin-1"), ascii
    return _special(lambda c: "\\" + quote if c[0] == quote else shown(c[0])[1:-1], value)


def _first_divergent_line(a, b):
    """Return the first line of a at which the trees differ, or 0."""
    for (line, mine), (_, other) in zip(_node_summaries(a), _node_summaries(b)):  # each summary includes the types of the children
        if mine != other:
            return line
    return 0


def _node_summaries(tree):
    """Yield (line, summary) of each node."""
    todo, line = [tree], 1
    while todo:
        node = todo.pop()
        line = getattr(node, "lineno", line)
        summary = [type(node)]
        for name in node._fields:
            summary.append(name)
            value = getattr(node, name, None)
            for part in value if type(value) is list else (value,):
                if not isinstance(part, ast.AST):
                    summary.append(part)
                elif not (isinstance(node, _FORMATTED) and isinstance(part, ast.Constant) and part.value == ""):
                    summary.append(type(part))
                    todo.append(part)
        yield line, summary
