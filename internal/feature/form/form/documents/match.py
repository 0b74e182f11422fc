"""How data finds its field."""

from . import names, values

_MAX_LEAVES = 20_000
_MAX_DEPTH = 20


class Leaf:
    """One value of the data."""

    used = False

    def __init__(self, path, keys, value, row=0, group=(), column=()):
        self.path = path  # as code writes it: address.city, items[0].name
        self.value = value
        self.row = row  # from 1, if it is in a list of objects
        self.last = keys[-1] if keys else ""
        self.whole = names.canonical(names.words(" ".join(keys)))
        self.short = names.canonical(names.words(self.last))
        self.group = "_".join(names.singular(names.words(" ".join(group))))
        self.column = names.canonical(names.words(" ".join(column)))


def flatten(data):
    """Return the values of data, in a stable order."""
    found = []

    def walk(v, path, keys, depth, row=0, group=(), column=()):
        if len(found) >= _MAX_LEAVES or depth > _MAX_DEPTH or v is None or isinstance(v, str) and not v.strip():
            return
        if isinstance(v, dict):
            for key in sorted(v):
                walk(v[key], f"{path}.{key}".removeprefix("."), (*keys, key), depth + 1, row, group, (*column, key) if row else ())
        elif isinstance(v, list) and any(isinstance(x, dict) for x in v):
            for i, x in enumerate(v):
                place = (row, group, column) if row else (i + 1, keys, ())
                walk(x, f"{path}[{i}]", keys, depth + 1, *place)
        else:
            found.append(Leaf(path, keys, v, row, group, column))

    walk(data, "", (), 0)
    return found


def match(fields, leaves):
    """Return the value of the data for each field that has one.

    More specific rules come first, and each value is used by the fields of the first rule that
    applies to it. A rule never guesses between two values.
    """
    taken = {}

    def take(f, leaf):
        if f not in taken and not f.repeats:
            taken[f] = leaf
            leaf.used = True

    single = [leaf for leaf in leaves if not leaf.row]
    for by in (_only(leaves, "path"), _only(single, "last")):  # the name as it is
        for f in fields:
            if f.name in by:
                take(f, by[f.name])
    _match_rows(fields, leaves, taken, take)
    known = {f: _names_of(f) for f in fields}
    for by in (_only(single, "whole"), _only(single, "short")):
        for f in fields:
            for name in known[f]:
                if name and name in by:
                    take(f, by[name])
    _match_full_name([f for f in fields if "full_name" in known[f]], _only(single, "short"), taken, take)
    _match_types(fields, single, take)
    return taken


def _only(leaves, key):
    """Return the leaves by one of their names, without names of several leaves."""
    by = {}
    for leaf in leaves:
        by.setdefault(getattr(leaf, key), []).append(leaf)
    return {name: found[0] for name, found in by.items() if len(found) == 1}


def _names_of(f):
    """Return the canonical names of a field: of its label, its name, and others."""
    return [names.canonical(names.words(s)) for s in (f.label, names.own_name(f.name), f.name, *f.aliases)]


def _match_rows(fields, leaves, taken, take):
    """Match the fields of rows with the objects of a list, in their order."""
    by = {}
    for leaf in leaves:
        if leaf.row:
            by.setdefault((leaf.group, leaf.row, leaf.column), leaf)
    groups = {group for group, _, _ in by}
    for f in fields:
        if not f.row or f in taken:
            continue
        group = f.group
        if len(groups) == 1 and group not in groups and (group in ("", "row") or group.endswith("_" + min(groups))):
            group = min(groups)
        if leaf := by.get((group, f.row, f.column)):
            take(f, leaf)


def _match_full_name(fields, by, taken, take):
    """Join the names of a person for a field that wants both."""
    first, last = by.get("first_name"), by.get("last_name")
    if not first or not last:
        return
    for f in fields:
        if f.type == values.TEXT and f not in taken:
            first.used = last.used = True
            take(f, Leaf(f"{first.path} + {last.path}", (), f"{_text(first.value)} {_text(last.value)}"))


def _text(v):
    return values.scalar(v) if values.scalar(v) is not None else str(v)


def _match_types(fields, leaves, take):
    """Match the only field of a type with the only value of that type."""
    for kind, fits in ((values.EMAIL, values.looks_like_email), (values.DATE, lambda s: len(s) == 10 and values.iso_day(s))):
        those = [f for f in fields if f.type == kind and not f.row]
        found = [leaf for leaf in leaves if isinstance(leaf.value, str) and not leaf.used and fits(leaf.value)]
        if len(those) == len(found) == 1:
            take(those[0], found[0])


def rows_of(leaves):
    """Return the number of rows that the data has for each group."""
    rows = {}
    for leaf in leaves:
        if leaf.row:
            rows[leaf.group] = max(rows.get(leaf.group, 0), leaf.row)
    return rows


def row_problems(fields, leaves, taken):
    """Return problems with lists of the data that have more rows than the form."""
    last, have = {}, {}
    for f in fields:
        last[f.group] = max(last.get(f.group, 0), f.row)
    for f, leaf in taken.items():
        if f.row and leaf.row:
            have[leaf.group] = max(have.get(leaf.group, 0), last[f.group])
    return [
        {"field": group, "problem": "too_many_rows", "message": f"{group}: the data has {rows} rows and the form has {have[group]}"}
        for group, rows in sorted(rows_of(leaves).items()) if 0 < have.get(group, 0) < rows
    ]
