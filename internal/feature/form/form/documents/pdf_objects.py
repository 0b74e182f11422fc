"""Objects of a PDF that may be references, or be of another type than they should be."""

from ..pypdf import generic

_MAX_STEPS = 32  # references to references
_MAX_TEXT = 1 << 20  # bytes


def value(o):
    """Return an object that may be a reference; one to nothing is None."""
    for _ in range(_MAX_STEPS):
        if not isinstance(o, generic.IndirectObject):
            break
        o = o.get_object()
    return None if isinstance(o, generic.NullObject) else o


def dictionary(o):
    o = value(o)
    return o if isinstance(o, generic.DictionaryObject) else {}


def array(o):
    o = value(o)
    return o if isinstance(o, generic.ArrayObject) else []


def text(o):
    """Return the text of a name, a string or, for long texts, a stream."""
    o = value(o)
    if isinstance(o, generic.NameObject):
        return o[1:]
    if isinstance(o, generic.StreamObject):
        data = o.get_data()
        o = generic.create_string_object(data) if len(data) < _MAX_TEXT else ""
    return o.decode("latin-1") if isinstance(o, bytes) else str(o) if isinstance(o, str) else ""
