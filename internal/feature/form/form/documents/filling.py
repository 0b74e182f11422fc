"""Maps data to the fields of a document, checks the values, and writes the filled copy."""

from . import match, names, schema, values, web
from .values import DocumentError

_START = 1024  # bytes in which the kind of a document is recognized
_FROM_DATA, _FROM_PROFILE, _FROM_PERSON, _FROM_FORM = "data", "profile", "answer", "form"
_CELL = str.maketrans({"\\": "\\\\", "|": "\\|", "\r": None, "<": "&lt;", "\n": "<br>"})
_KINDS = {
    values.BOOLEAN: {"type": "boolean"}, values.NUMBER: {"type": "number"}, values.INTEGER: {"type": "integer"},
    values.EMAIL: {"type": "string", "format": "email"},
}


def answer(request, data):
    """Return the answer to a request about a document, and the filled document or None.

    A request has op, "open" or "fill", and to fill data, profile, answers and ignore_scripts.
    """
    d = _open(data, request["op"] == "fill")
    if request["op"] == "open":
        return {"form": d.describe()}, None
    return _fill(d, request)


def is_pdf(data):
    return b"%PDF-" in data[:_START]


def _open(data, fill):
    """Open a document of any kind, which is detected from its content."""
    start = data[:_START].removeprefix(b"\xef\xbb\xbf").lstrip()
    if is_pdf(data):
        from . import pdf  # with a library that other kinds do not need

        d = pdf.Document(data, fill)
    elif start.startswith(b"{"):
        d = schema.Document(data)
    elif start.startswith(b"<"):
        d = web.Document(data)
    else:
        raise DocumentError("unknown_kind", "the file is neither a PDF nor HTML nor a JSON Schema")
    if not d.fields:
        raise DocumentError("no_fields", "the document has no fields that can be filled in")
    names.find_rows(d.fields)
    return d


def _fill(d, request):
    if d.scripts and not request.get("ignore_scripts"):
        raise DocumentError("scripts", f"{d.warnings[-1]}; fill it with ignore_scripts=True if that is acceptable")
    answers, profile = request.get("answers") or {}, request.get("profile")
    leaves = match.flatten(request["data"])
    s = _Session(d, d.expand(match.rows_of(leaves)))
    for f in s.fields:
        if answers.get(f.name) not in (None, ""):
            s.put(f, answers[f.name], _FROM_PERSON)
    taken = s.take(leaves, _FROM_DATA)
    s.problems += match.row_problems(s.fields, leaves, taken)
    if profile is not None:
        s.take(match.flatten(profile), _FROM_PROFILE)
    missing = [{"name": f.name, "schema": _question(f)} for f in s.fields if s.lacks(f)]
    filled = {
        "values": {f.name: v for f, v in s.values.items()}, "problems": s.problems, "missing": missing,
        "unused": [leaf.path for leaf in leaves if not leaf.used], "review": s.review(),
    }
    return {"filled": filled}, None if s.problems or missing else d.write(s.values)


class _Session:
    """The values of one filling."""

    def __init__(self, document, fields):
        self.document, self.fields = document, fields
        self.values, self.sources, self.problems = {}, {}, []

    def put(self, f, v, source):
        """Check a value and keep it, or the problem with it."""
        self.sources[f] = source
        if f.read_only:
            value, problem = None, {"field": f.name, "problem": "read_only", "message": f"{f.title}: the field cannot be changed"}
        else:
            value, problem = values.check(f, v)
        if problem := problem or self.document.fit(f, value):
            self.problems.append(problem)
        else:
            self.values[f] = value

    def take(self, leaves, source):
        """Match values with the fields that have none."""
        paths = {leaf.path for leaf in leaves}
        fields = [f for f in self.fields if f not in self.sources and (not f.read_only or f.name in paths)]
        taken = match.match(fields, leaves)
        for f in fields:
            if f in taken and (source == _FROM_DATA or f.value is None):
                self.put(f, taken[f].value, source)
        return taken

    def lacks(self, f):
        """Report whether a value must be asked for."""
        absent = f not in self.sources and f.value is None
        refused = self.document.kind == "html" and f.type == values.BOOLEAN and self.values.get(f) is False
        return f.required and not f.read_only and not f.repeats and (absent or refused)

    def review(self):
        """Return a Markdown table of the values that are filled in or missing."""
        lines = ["| Field | Value | From |", "|---|---|---|"]
        for f in self.fields:
            source = self.sources.get(f, "")
            if f in self.values:
                v = self.values[f]
            elif source:
                v = "(see problems)"
            elif f.value is not None:
                v, source = f.value, _FROM_FORM
            elif f.required and not f.repeats:
                v = "(missing)"
            else:
                continue
            if isinstance(v, bool):
                v = "yes" if v else "no"
            # With the colon, no row looks like the header of a table with names of values, which
            # would make the detection of personal data read the next rows as such values.
            lines.append(f"| {_cell(f.title.rstrip(':'))}: | {_cell(values.option_text(f, values.shown(f, v)))} | {source} |")
        return "\n".join(lines) + "\n"


def _cell(s):
    """Make a text safe for a cell of a table."""
    return s.translate(_CELL)


def _question(f):
    """Return the JSON schema of the answer to a question for a field."""
    asked = {"type": "string", "title": f.title, **_KINDS.get(f.type, {})}
    if f.type == values.DATE:
        asked["description"] = "A date, as YYYY-MM-DD" + values.or_format(f)
    if f.type in (values.CHOICE, values.CHOICES) and f.options and not f.open:
        asked["enum"] = [label or value for value, label in f.options]
    if f.max_length:
        asked["maxLength"] = f.max_length
    return asked
