"""Scripts of PDF files. They are found and not run, except that the format of a date is understood."""

import re

from ..pypdf import generic
from .pdf_objects import array, dictionary, text, value

_MAX_DEPTH = 32
_ELSEWHERE = frozenset(("/D", "/P", "/Parent", "/Kids"))  # keys that lead out of an action
_CONTAINERS = (generic.DictionaryObject, generic.ArrayObject, generic.IndirectObject)

# The script that programs write for the format of a date.
_DATE = re.compile(r"""\s*AFDate_(?:FormatEx|KeystrokeEx)\(\s*["']([dmyDMY ./-]+)["']\s*\)\s*;?\s*""")
_HINT = re.compile(r"(?i)\b(?:yyyy[-/. ]mm[-/. ]dd|(?:dd|mm)[-/. ](?:dd|mm)[-/. ]yyyy)\b")


class Scripts:
    """The places of a PDF that have scripts; budget limits the objects that are visited."""

    def __init__(self, budget):
        self.places, self._budget = set(), budget

    def of_field(self, f, d):
        """Look for scripts of a field. One that only formats a date is understood: its format becomes that of the field."""
        for action in dictionary(d.get("/AA")).values():
            source = _source(action)
            if m := source and _DATE.fullmatch(source):
                if layout := date_format(m[1]):
                    f.format = layout
                    continue
            if source or self.within(action):
                self.places.add(f.name)
        if "/A" in d and self.within(d["/A"]):
            self.places.add(f.name)

    def of_document(self, root, form):
        """Look for scripts that run when the document is opened, closed or printed."""
        named = dictionary(root.get("/Names")).get("/JavaScript")
        for place, o in (("OpenAction", root.get("/OpenAction")), ("the document", root.get("/AA"))):
            if o is not None and not isinstance(value(o), generic.ArrayObject) and self.within(o):  # an array is a destination
                self.places.add(place)
        if named is not None:
            self.places.add("the document's code")
        if array(form.get("/CO")):
            self.places.add("computed fields")

    def within(self, o, depth=0):
        """Report whether an action, one that follows it, or one of a dictionary of actions is JavaScript."""
        if depth > _MAX_DEPTH or not self._budget():
            return True
        o = value(o)
        if isinstance(o, generic.ArrayObject):
            return any(self.within(x, depth + 1) for x in o)
        if not isinstance(o, generic.DictionaryObject):
            return False
        if "/JS" in o or value(o.get("/S")) == "/JavaScript":
            return True
        return any(self.within(x, depth + 1) for key, x in o.items() if isinstance(x, _CONTAINERS) and key not in _ELSEWHERE)


def _source(action):
    """Return the text of a JavaScript action."""
    action = dictionary(action)
    return text(action.get("/JS")) if value(action.get("/S")) == "/JavaScript" and "/Next" not in action else ""


def date_format(s):
    """Convert a format of Acrobat, such as dd.mm.yyyy, to ours; "" if it has other parts."""
    parts = re.findall("[a-z]+|[^a-z]+", s.strip().lower())
    known = frozenset(("yyyy", "mm", "dd", "m", "d", "yy", "-", "/", ".", " ", ". "))
    return "".join(parts).upper() if known.issuperset(parts) else ""


def format_in(label):
    """Return the date format that a label names, such as "Date of birth (DD/MM/YYYY)"."""
    m = _HINT.search(label)
    return date_format(m[0]) if m else ""
