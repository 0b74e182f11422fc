"""Fields of forms, and the check of the values for them. Messages contain no part of a value, which may be private."""

import datetime
import decimal
import math
import re

TEXT, NUMBER, INTEGER, DATE, EMAIL = "text", "number", "integer", "date", "email"
BOOLEAN, CHOICE, CHOICES = "boolean", "choice", "choices"  # a checkbox; one of the options; several of them
MAX_FIELDS = 5000

_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_PARTS = re.compile("YYYY|YY|MM|DD|M|D")
_TRUTH = dict.fromkeys("true yes on x 1 y".split(), True) | dict.fromkeys("false no off 0 n".split(), False)
_ALTERNATIVES = {True: ("yes", "true", "1"), False: ("no", "false", "0")}


class DocumentError(Exception):
    """A problem of the whole document."""

    def __init__(self, problem, message):
        super().__init__(message)
        self.problem = {"problem": problem, "message": message}


class Field:
    """One value to fill in. A field has a name, unique in its form, and a label that a person reads."""

    label = format = pattern = group = column = ""
    type, page, max_length, row = TEXT, 0, 0, 0
    required = read_only = multiline = open = repeats = False
    minimum = maximum = value = None
    aliases = ()  # further names under which data may have the value
    target = None  # where the writer of its kind puts the value

    def __init__(self, name):
        self.name = name
        self.options = []  # pairs of value and label; "" as the label means the value

    @property
    def title(self):
        """The name of the field for a person."""
        return self.label or self.name

    def describe(self):
        """Return the field as a dict, without what it does not have."""
        found = {
            "name": self.name, "label": self.label, "type": self.type, "page": self.page,
            "required": self.required, "read_only": self.read_only, "multiline": self.multiline, "max_length": self.max_length,
            "options": [{"value": value, "label": label} if label else {"value": value} for value, label in self.options],
            "other_values": self.open, "format": self.format, "pattern": self.pattern,
        }
        found = {key: value for key, value in found.items() if value}
        for key in ("minimum", "maximum", "value"):
            if (value := getattr(self, key)) is not None:
                found[key] = value
        rest = {"group": self.group, "row": self.row, "column": self.column, "repeats": self.repeats}
        return found | {key: value for key, value in rest.items() if value}


class _Wrong(Exception):
    """A value does not fit."""


def check(f, v):
    """Return a value in the form that its field takes, and None, or None and the problem with it."""
    try:
        return _CHECKS.get(f.type, _check_text)(f, v), None
    except _Wrong as e:
        problem, message = e.args
        return None, {"field": f.name, "problem": problem, "message": f"{f.title}: {message}"}


def _check_boolean(f, v):
    b = truth(v)
    if b is None:
        raise _Wrong("wrong_type", f"a checkbox takes true or false, not {_type_name(v)}")
    return b


def _check_choice(f, v):
    s = scalar(v)
    if s is not None:
        if option := _find_option(f, s):
            return option[0]
        b = truth(v)
        if b is not None and len(f.options) == 2:  # a group of yes and no
            for word in _ALTERNATIVES[b]:
                if option := _find_option(f, word):
                    return option[0]
        if f.open:
            return s
    raise _Wrong("not_an_option", f"the value is none of the options: {_option_names(f)}")


def _check_choices(f, v):
    chosen = []
    for x in v if isinstance(v, list) else [v]:
        option = _find_option(f, scalar(x) or "")
        if f.options and not option:
            raise _Wrong("not_an_option", f"a value is none of the options: {_option_names(f)}")
        chosen.append(option[0] if option else x)
    return chosen


def _check_number(f, v):
    n = number(v)
    if n is None:
        raise _Wrong("wrong_type", f"a number is needed, not {_type_name(v)}")
    if f.type == INTEGER and not isinstance(n, int):
        raise _Wrong("wrong_type", "a whole number is needed")
    low, high = f.minimum, f.maximum
    if low is not None and n < low or high is not None and n > high:
        bounds = f"at most {high}" if low is None else f"at least {low}" if high is None else f"from {low} to {high}"
        raise _Wrong("out_of_range", f"the number must be {bounds}")
    return n


def _check_text(f, v):
    s = scalar(v)
    if s is None:
        raise _Wrong("wrong_type", f"a text is needed, not {_type_name(v)}")
    if _CONTROL.search(s):
        raise _Wrong("characters", "the text has control characters")
    if f.type == EMAIL and not looks_like_email(s):
        raise _Wrong("wrong_type", "an e-mail address is needed")
    if f.type == DATE:
        if (day := _day(f.format, s.strip())) is None:
            raise _Wrong("wrong_type", "a date is needed, as YYYY-MM-DD" + or_format(f))
        s = _in_format(f.format, day)
    elif not f.multiline and ("\n" in s or "\r" in s):
        raise _Wrong("wrong_type", "the text has several lines, and the field has one")
    if f.max_length and len(s) > f.max_length:
        raise _Wrong("too_long", f"the value has {len(s)} characters; at most {f.max_length} are allowed")
    if f.pattern and not _matches(f.pattern, s):
        raise _Wrong("pattern", f"the value does not match the pattern {f.pattern}")
    return s


_CHECKS = {BOOLEAN: _check_boolean, CHOICE: _check_choice, CHOICES: _check_choices, NUMBER: _check_number, INTEGER: _check_number}


def _matches(pattern, s):
    try:
        return re.fullmatch(pattern, s)
    except re.error:  # of another kind of regular expressions
        return True


def _find_option(f, s):
    """Find an option by its value or its label."""
    for key in (str, lambda text: text.strip().casefold()):
        for value, label in f.options:
            if key(value) == key(s) or label and key(label) == key(s):
                return value, label
    return None


def _option_names(f):
    names = [label or value for value, label in f.options]
    return ", ".join(names if len(names) <= 12 else [*names[:12], f"and {len(names) - 12} more"])


def truth(v):
    """Return a value as True or False, or None if it is neither."""
    return v if isinstance(v, bool) else _TRUTH.get((scalar(v) or "").strip().lower())


def number(v):
    """Return a value as a number, whole if it can be, or None if it is none."""
    s = None if isinstance(v, bool) else scalar(v)
    try:
        n = float(s) if s and s.isascii() and "_" not in s else math.nan
    except ValueError:
        return None
    if not math.isfinite(n):
        return None
    try:
        return int(s)  # float has not every whole number
    except ValueError:
        return int(n) if n.is_integer() else n


def scalar(v):
    """Return a text, number or truth value as text, or None."""
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, float):
        return format(decimal.Decimal(repr(v)), "f")
    return v if isinstance(v, str) else str(v) if isinstance(v, int) else None


def _type_name(v):
    names = {list: "a list", dict: "an object", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(v), "this text")


def looks_like_email(s):
    name, _, host = s.partition("@")
    return bool(name) and "." in host and not any(c in s for c in " \n,;") and "@" not in host


def iso_day(s):
    """Return the date that a text begins with in the form YYYY-MM-DD, or None if the rest is no time."""
    try:
        return datetime.datetime.fromisoformat(s).date() if _ISO.fullmatch(s) else None
    except ValueError:
        return None


def _day(layout, s):
    """Return the date of a text in the form YYYY-MM-DD or in that of a field, or None."""
    if day := iso_day(s):
        return day
    kinds = {"YYYY": r"(\d{4})", "YY": r"(\d\d)", "MM": r"(\d\d)", "DD": r"(\d\d)", "M": r"(\d\d?)", "D": r"(\d\d?)"}
    pattern = "".join(kinds.get(part, re.escape(part)) for part in re.split(f"({_PARTS.pattern})", layout))
    m = re.fullmatch(pattern, s, re.ASCII)
    if not layout or not m:
        return None
    parts = {}
    for name, digits in zip(_PARTS.findall(layout), m.groups()):
        century = 0 if name != "YY" else 1900 if int(digits) >= 69 else 2000
        parts[name[0]] = century + int(digits)
    try:
        return datetime.date(parts.get("Y", 0), parts.get("M", 1), parts.get("D", 1))
    except ValueError:
        return None


def _in_format(layout, day):
    numbers = {"Y": day.year, "M": day.month, "D": day.day}

    def written(m):
        digits = f"{numbers[m[0][0]]:0{len(m[0])}}"
        return digits[-2:] if m[0] == "YY" else digits

    return _PARTS.sub(written, layout or "YYYY-MM-DD")


def or_format(f):
    return "" if f.format in ("", "YYYY-MM-DD") else " or " + f.format


def shown(f, v):
    """Return a checked value as text."""
    return "\n".join(option_text(f, scalar(x) or "") for x in v) if isinstance(v, list) else scalar(v) or ""


def option_text(f, s):
    """Return what a person reads for a value of a choice."""
    return next((label or value for value, label in f.options if value == s), s)


def texts(v):
    """Return a value or a list of values as texts."""
    found = [scalar(x) for x in (v if isinstance(v, list) else [v])]
    return [s for s in found if s is not None]
