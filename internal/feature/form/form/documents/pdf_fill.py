"""Fills in the fields of a PDF: their values and their appearances."""

from ..pypdf import generic
from . import values
from .pdf_objects import array, dictionary, text, value
from .pdf_text import Layout, Look, color_of, names, num, parse_appearance, unsupported
from .values import DocumentError

_LARGEST = 1e5  # side of a field in points
_THICKEST = 10  # border in points
_OFF = "Off"
_MATRICES = {90: (0, 1, -1, 0, 0, 0), 180: (-1, 0, 0, -1, 0, 0), 270: (0, -1, 1, 0, 0, 0)}


class Target:
    """Where the value of a field is in a PDF: its dictionary and its widgets, which are the places where it is shown."""

    comb = 0  # cells of a field with one for each character

    def __init__(self, pdf, entries, kind, appearance, align):
        self.pdf, self.entries, self.kind = pdf, entries, kind  # kind: Tx, Btn, Ch
        self.appearance, self.align = appearance, align
        self.widgets = []  # pairs of a dictionary and, of a button, the state that selects it

    def add(self, widget):
        if isinstance(widget, generic.DictionaryObject):
            self.widgets.append((widget, _on_state(widget)))


def _on_state(widget):
    """Return the state of a button that selects it: the appearance that is not Off."""
    for key in ("/N", "/D"):
        states = dictionary(dictionary(widget.get("/AP")).get(key))
        if not isinstance(states, generic.StreamObject):
            for name in sorted(states):
                if name != "/" + _OFF:
                    return name[1:]
    return ""


def problem(f, v):
    """Return the problem with a value that its field cannot show, or None."""
    if f.target.kind == "Btn":
        return None
    s = values.option_text(f, values.shown(f, v))
    if c := unsupported(s):
        message = f"{f.title}: the character {c!r} (U+{ord(c):04X}) is not in the fonts of a form; write it in Latin letters"
        return {"field": f.name, "problem": "characters", "message": message}
    for widget, _ in f.target.widgets:
        look = _look(f, widget)
        if look and look.width and look.height and not look.layout(s):  # otherwise hidden: another place shows it, or none
            message = f"{f.title}: the value has {len(s)} characters and does not fit into the field; shorten it"
            return {"field": f.name, "problem": "too_long", "message": message}
    return None


def fill(f, v):
    """Set the value of a field and its appearances."""
    t = f.target
    if t.kind == "Btn":
        _press(f, v)
        return
    for d in (t.entries, *(widget for widget, _ in t.widgets)):
        d.pop("/RV", None)  # the value with fonts, which would contradict it
        d.pop("/I", None)
    if f.type == values.CHOICES:
        chosen = [(i, option) for i, (option, _) in enumerate(f.options) if option in v]
        _set(t.entries, "/V", generic.ArrayObject(generic.TextStringObject(option) for _, option in chosen))
        _set(t.entries, "/I", generic.ArrayObject(generic.NumberObject(i) for i, _ in chosen))
    else:
        _set(t.entries, "/V", generic.TextStringObject(values.shown(f, v)))
    shown = values.option_text(f, values.shown(f, v))
    for widget, _ in t.widgets:
        if (look := _look(f, widget)) is None:
            raise DocumentError("broken", f'field "{f.name}" of the PDF cannot be drawn: it has no rectangle')
        layout = look.layout(shown) or Layout(look, [""], 1)  # of a hidden field
        stream = _stream(t.pdf, look, layout.draw(), {"/Helv": layout.font()})
        _set(widget, "/AP", generic.DictionaryObject({generic.NameObject("/N"): stream}))
        widget.pop("/AS", None)


def _press(f, v):
    """Select the buttons of a checkbox or a group, and release the others."""
    t = f.target
    state = v if isinstance(v, str) else next((on for _, on in t.widgets if on), "Yes") if v else _OFF
    _set(t.entries, "/V", generic.NameObject("/" + state))
    for widget, on in t.widgets:
        if not on:
            _draw_button(f, widget, "Yes" if state == _OFF else state)
        _set(widget, "/AS", generic.NameObject("/" + (state if on in ("", state) else _OFF)))


def _draw_button(f, widget, state):
    """Give a checkbox without appearances of its own two of them."""
    if (look := _look(f, widget)) is None:
        raise DocumentError("broken", f'field "{f.name}" of the PDF cannot be drawn: it has no rectangle')
    size, box = min(look.width, look.height) * 0.8, look.box()
    x, y = num((look.width - size * 0.85) / 2), num((look.height - size * 0.7) / 2)
    mark = f"q BT /ZaDb {num(size)} Tf {look.color} {x} {y} Td (4) Tj ET Q"
    font = names({"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/ZapfDingbats"})
    states = generic.DictionaryObject()
    _set(states, "/" + state, _stream(f.target.pdf, look, box + mark, {"/ZaDb": font}))
    _set(states, "/" + _OFF, _stream(f.target.pdf, look, box, {}))
    _set(widget, "/AP", generic.DictionaryObject({generic.NameObject("/N"): states}))


def _look(f, widget):
    """Read the geometry and style of a widget; return None if it has no rectangle."""
    rect = _numbers(widget.get("/Rect"))
    if len(rect) != 4:
        return None
    look = Look(abs(rect[2] - rect[0]), abs(rect[3] - rect[1]))
    if max(look.width, look.height) > _LARGEST:
        raise DocumentError("broken", f'field "{f.name}" of the PDF has {look.width:g} by {look.height:g} points')
    t = f.target
    look.multiline, look.comb = f.multiline or f.type == values.CHOICES, t.comb
    look.align = _whole(widget.get("/Q"), t.align)
    look.size, look.color = parse_appearance(text(widget.get("/DA")) or t.appearance)
    if width := _numbers([dictionary(widget.get("/BS")).get("/W")]):
        look.border = min(max(width[0], 0), _THICKEST)
    style = dictionary(widget.get("/MK"))
    look.background, look.frame = color_of(_numbers(style.get("/BG")), False), color_of(_numbers(style.get("/BC")), True)
    look.rotated = _whole(style.get("/R"), 0) % 360
    if look.rotated in (90, 270):
        look.width, look.height = look.height, look.width
    return look


def _numbers(o):
    """Return an array of numbers as a list, which is empty if it has anything else."""
    found = [value(x) for x in (o if type(o) is list else array(o))]
    return [float(x) for x in found] if all(isinstance(x, (int, float)) for x in found) else []


def _whole(o, otherwise):
    n = value(o)
    return int(n) if isinstance(n, int) else otherwise


def _stream(pdf, look, content, fonts):
    """Add a form XObject of the size of a widget, and return the reference to it."""
    stream = generic.DecodedStreamObject()
    stream.set_data(content.encode("ascii"))
    stream = stream.flate_encode()
    stream.update(names({"/Type": "/XObject", "/Subtype": "/Form"}))
    _set(stream, "/BBox", _array(0, 0, look.width, look.height))
    fonts = generic.DictionaryObject({generic.NameObject(name): font for name, font in fonts.items()})
    _set(stream, "/Resources", generic.DictionaryObject({generic.NameObject("/Font"): fonts}))
    if matrix := _MATRICES.get(look.rotated):
        _set(stream, "/Matrix", _array(*matrix))
    return pdf._add_object(stream)


def _array(*numbers):
    return generic.ArrayObject(generic.FloatObject(n) for n in numbers)


def _set(d, key, o):
    d[generic.NameObject(key)] = o
