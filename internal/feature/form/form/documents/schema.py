"""JSON Schemas as forms. The filled form is a document, which the daemon checks against the whole schema."""

import json

from . import kinds, names, values
from .values import MAX_FIELDS, DocumentError, Field

_MAX_SCHEMAS = 20_000  # that are visited: references may repeat them
_MAX_DEPTH = 20
_LABEL = 60  # characters of a description that is used as a label


class Document(kinds.Document):
    kind = "json_schema"

    def __init__(self, data):
        super().__init__()
        try:
            self._root = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            raise DocumentError("broken", "the file begins like JSON and is none") from None
        if not self._root.keys() & {"properties", "$ref"}:
            raise DocumentError("unknown_kind", "the JSON document is not a JSON Schema of an object: it has no properties")
        self.title = _text(self._root.get("title"))
        self._seen = 0
        self._walk(self._root, (), "", True, 0)

    def _walk(self, o, path, group, required, depth):
        """Add the fields of the properties of an object. Group is the path of the list that it is in."""
        o = self._resolve(o)
        self._seen += 1
        if self._seen > _MAX_SCHEMAS or depth > _MAX_DEPTH:
            raise DocumentError("too_large", "the JSON Schema is nested too deeply, or refers to itself")
        needed = values.texts(o.get("required"))
        for name, p in _dict(o.get("properties")).items():
            if isinstance(p, dict):
                self._property(self._resolve(p), (*path, name), group, required and name in needed, depth)

    def _property(self, p, path, group, required, depth):
        kind = p.get("type")
        if isinstance(kind, list):  # such as ["string", "null"]
            kind = next((x for x in kind if x != "null"), None)
        items = self._resolve(_dict(p.get("items")))
        if "properties" in p:
            return self._walk(p, path, group, required, depth + 1)
        if kind == "array" and "properties" in items:
            where = ".".join(path)
            if group:
                raise DocumentError("too_large", f"the JSON Schema has a list within a list at {where}, which is not supported")
            return self._walk(items, (*path, ""), where, True, depth + 1)
        f = Field(_name(path, ""))
        f.required, f.group, f.repeats, f.target = required, group, bool(group), path
        about = _text(p.get("description"))
        f.label = _text(p.get("title")) or (names.clean(about) if len(about) <= _LABEL else "")
        f.pattern = _text(p.get("pattern"))
        f.max_length = int(values.number(p.get("maxLength")) or 0)
        f.minimum, f.maximum = values.number(p.get("minimum")), values.number(p.get("maximum"))
        f.value, f.read_only = p.get("const", p.get("default")), "const" in p
        _describe(f, kind, p, items)
        self.add(f)

    def _resolve(self, o):
        """Follow references within the document."""
        for _ in range(_MAX_DEPTH):
            ref = o.get("$ref")
            if not isinstance(ref, str) or not ref.startswith("#"):
                break
            at = self._root
            for part in ref[1:].removeprefix("/").split("/") if ref != "#" else ():
                at = _dict(at).get(part.replace("~1", "/").replace("~0", "~"))
            o = _dict(at)
        return o

    def expand(self, rows):
        """Repeat the fields of lists for the rows of the data."""
        fields = []
        for f in self.fields:
            if not f.repeats:
                fields.append(f)
                continue
            group = "_".join(names.singular(names.words(f.group)))
            at = f.target.index("")
            for row in range(min(rows.get(group, 0), MAX_FIELDS + 1)):
                one = Field(_name(f.target, row))
                one.__dict__ |= {**f.__dict__, "name": one.name, "row": row + 1, "group": group, "repeats": False, "value": None}
                one.column = names.canonical(names.words(" ".join(f.target[at + 1 :])))
                one.target = (*f.target[:at], row, *f.target[at + 1 :])
                fields.append(one)
                if len(fields) > MAX_FIELDS:
                    raise DocumentError("too_many_fields", f"with the rows of the data, the form has more than {MAX_FIELDS} fields")
        return fields

    def write(self, filled):
        out = {}
        for f in self.fields:
            if f not in filled and f.value is not None and not f.repeats:
                _place(out, f.target, f.value)
        for f, v in filled.items():
            _place(out, f.target, v)
        return json.dumps(_with_lists(out), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _describe(f, kind, p, items):
    if "enum" in p:
        f.type, f.options = values.CHOICE, _options(p["enum"])
    elif kind == "array":
        f.type, f.options = values.CHOICES, _options(items.get("enum", []))
    elif kind in (values.NUMBER, values.INTEGER, values.BOOLEAN):
        f.type = kind
    elif p.get("format") in (values.DATE, values.EMAIL):
        f.type = p["format"]
    else:
        f.multiline = True


def _options(enum):
    return [(s, "") for s in values.texts(enum)]


def _name(path, row):
    """Return the name of a field: an empty element of its path is a row, counted from 0."""
    return "".join(f"[{row}]" if not part else "." + part if i else part for i, part in enumerate(path))


def _place(o, path, v):
    """Put a value at a path of objects; rows are objects whose keys are numbers, which no property has."""
    for part in path[:-1]:
        o = o.setdefault(part, {})
    o[path[-1]] = v


def _with_lists(v):
    """Convert the rows that _place made to lists."""
    if not isinstance(v, dict):
        return v
    v = {key: _with_lists(x) for key, x in v.items()}
    rows = sorted(key for key in v if isinstance(key, int))
    return [v[row] for row in rows] if rows else v


def _dict(v):
    return v if isinstance(v, dict) else {}


def _text(v):
    return v if isinstance(v, str) else ""
