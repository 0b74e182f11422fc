"""HTML pages as forms. The start tags of controls and the texts of text areas are written anew; the rest of a page stays as it is."""

import re
from html.parser import HTMLParser

from . import kinds, names, values
from .values import DocumentError, Field

_CONTROLS = frozenset(("input", "select", "textarea"))
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_OF_CONTROLS = ("script", "style", "select", "textarea", "option")  # texts in these do not belong to a label
_NO_VALUES = frozenset("hidden submit button image reset".split())
_TYPES = {
    "number": values.NUMBER, "range": values.NUMBER, "email": values.EMAIL, "date": values.DATE,
    "radio": values.CHOICE, "checkbox": values.BOOLEAN,
}
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"})
_ENDED_BY = {"option": "option", "optgroup": "option", "select": "select"}  # elements that end where these begin


class _Element:
    """An element that is of interest for a form; text is that within it."""

    def __init__(self, tag, attributes, start, end, inside):
        self.tag, self.start, self.end = tag, start, end  # of its start tag
        self.attributes = {}
        for key, value in attributes:
            self.attributes.setdefault(key, value or "")
        self.form, self.label, self.fieldset = map(inside, ("form", "label", "fieldset"))
        self.content_end = end  # of a text area
        self.texts, self.options, self.legend = [], [], None

    def __getitem__(self, key):
        return self.attributes.get(key, "")

    @property
    def text(self):
        return "".join(self.texts)

    def set_flag(self, key, on):
        self.attributes.pop(key, None)
        if on:
            self.attributes[key] = key

    def start_tag(self):
        return f"<{self.tag}" + "".join(f' {key}="{value.translate(_ESCAPES)}"' for key, value in self.attributes.items()) + ">"

    def option_value(self):
        return self["value"] if "value" in self.attributes else names.clean(self.text)


class _Page(HTMLParser):
    """The forms, labels and controls of a page, in the order of the document."""

    def __init__(self, text):
        super().__init__()
        self.kept = {tag: [] for tag in ("form", "label", "title")}
        self.controls = []
        self._open, self._by_tag = [], {}  # the open elements, all and by tag
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self.feed(text)
        self.close()
        while self._open:
            self._pop(len(text))

    def _at(self):
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag, attributes):
        self.handle_endtag(_ENDED_BY.get(tag))
        start = self._at()
        e = _Element(tag, attributes, start, start + len(self.get_starttag_text()), self._inside)
        if tag in _CONTROLS:
            self.controls.append(e)
        elif tag in self.kept:
            self.kept[tag].append(e)
        elif tag == "option" and (select := self._inside("select")):
            select.options.append(e)
        elif tag == "legend" and e.fieldset and not e.fieldset.legend:
            e.fieldset.legend = e
        if tag not in _VOID:
            self._open.append(e)
            self._by_tag.setdefault(tag, []).append(e)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)  # the slash has no meaning in HTML

    def handle_endtag(self, tag):
        if self._inside(tag):
            while self._pop(self._at()) != tag:
                pass

    def handle_data(self, data):
        of_control = any(map(self._inside, _OF_CONTROLS))
        for tag in ("option", "textarea") if of_control else ("label", "legend", "title"):
            if e := self._inside(tag):
                e.texts.append(data)

    def _inside(self, tag):
        """Return the innermost open element with a tag, or None."""
        found = self._by_tag.get(tag)
        return found[-1] if found else None

    def _pop(self, at):
        e = self._open.pop()
        self._by_tag[e.tag].pop()
        e.content_end = at
        return e.tag


class Document(kinds.Document):
    kind = "html"

    def __init__(self, data):
        super().__init__()
        self._text = data.decode("utf-8", "surrogateescape")
        page = _Page(self._text)
        self.title = next(filter(None, (names.clean(e.text) for e in page.kept["title"])), "")
        self._labels = {e["for"]: names.clean(e.text) for e in page.kept["label"] if e["for"]}
        self._names, self._radios = {}, {}
        controls = page.controls
        if forms := page.kept["form"]:
            chosen = self._choose(forms, controls)
            controls = [e for e in controls if e.form is chosen]
        for e in controls:
            if e["name"] and "disabled" not in e.attributes:
                self._add(e)

    def _choose(self, forms, controls):
        """Return the form element with the most controls."""
        count = dict.fromkeys(forms, 0)
        for e in controls:
            if e.form:
                count[e.form] += 1
        best = max(forms, key=count.get)
        if len(forms) > 1:
            self.warnings.append(f"the document has {len(forms)} forms; these are the fields of the one with the most")
        self.submit = {"action": best["action"], "method": best["method"].upper() or "GET"}
        if not best["action"]:
            del self.submit["action"]
        return best

    def _add(self, e):
        """Add the field of a control."""
        name, kind = e["name"], e["type"].lower() if e.tag == "input" else e.tag
        if kind in _NO_VALUES:
            return
        if kind == "file":
            self.warnings.append(f'field "{name}" is for a file, which is not supported')
            return
        if kind == "radio" and name in self._radios:
            self._add_radio(self._radios[name], e)
            return
        self._names[name] = count = self._names.get(name, 0) + 1
        repeated = count > 1 or name.endswith("[]")  # repeated controls are rows
        f = Field(f"{name.removesuffix('[]')}[{count}]" if repeated else name)
        f.label, f.pattern, f.target = self._label(e), e["pattern"], e
        f.required, f.read_only = "required" in e.attributes, "readonly" in e.attributes
        f.max_length = int(e["maxlength"]) if e["maxlength"].isdecimal() and len(e["maxlength"]) < 10 else 0
        f.minimum, f.maximum = values.number(e["min"]), values.number(e["max"])
        f.aliases = e["autocomplete"], e["id"]
        _describe(f, e, kind)
        if kind == "radio":
            self._radios[name] = f
            legend = e.fieldset.legend if e.fieldset else None
            f.label, f.target = names.clean(legend.text) if legend else "", []
            self._add_radio(f, e)
        self.add(f)

    def _add_radio(self, f, e):
        value, label = e["value"], self._label(e)
        f.options.append((value, "" if label == value else label))
        f.target.append(e)
        f.required = f.required or "required" in e.attributes
        if "checked" in e.attributes:
            f.value = value

    def _label(self, e):
        """Return the label of a control for a person."""
        if label := self._labels.get(e["id"]):
            return label
        if e.label:
            return names.clean(e.label.text)
        return next(filter(None, (names.clean(e[key]) for key in ("aria-label", "title", "placeholder"))), "")

    def write(self, filled):
        changes = []  # start and end in the text, and what is between then
        for f, v in filled.items():
            for e in f.target if isinstance(f.target, list) else [f.target]:
                changes += _change(f, e, v)
        parts, at = [], 0
        for start, end, text in sorted(changes):
            parts += self._text[at:start], text
            at = end
        return "".join([*parts, self._text[at:]]).encode("utf-8", "surrogateescape")


def _describe(f, e, kind):
    if kind == "select":
        f.type = values.CHOICES if "multiple" in e.attributes else values.CHOICE
        _describe_options(f, e)
    elif kind == "textarea":
        f.multiline = True
        if e.text.strip():
            f.value = e.text.removeprefix("\n")  # which is not part of the text
    else:
        f.type = _TYPES.get(kind, values.TEXT)
        if kind == "checkbox":
            f.value = True if "checked" in e.attributes else None
        elif kind != "radio":
            f.value = e["value"] or None


def _describe_options(f, e):
    for o in e.options:
        value, label = o.option_value(), names.clean(o.text)
        if value and "disabled" not in o.attributes:  # without a value: "please choose"
            f.options.append((value, "" if label == value else label))
            if "selected" in o.attributes and f.type == values.CHOICE:
                f.value = value


def _change(f, e, v):
    """Yield the changes for the value of a field in one of its controls."""
    if e.tag == "select":
        chosen = values.texts(v)
        for o in e.options:
            o.set_flag("selected", o.option_value() in chosen)
            yield o.start, o.end, o.start_tag()
        return
    if e.tag == "textarea":
        text = values.shown(f, v).translate(_ESCAPES)
        yield e.end, e.content_end, "\n" + text if text.startswith("\n") else text
        return
    if isinstance(f.target, list):
        e.set_flag("checked", e["value"] == v)
    elif f.type == values.BOOLEAN:
        e.set_flag("checked", v)
    else:
        e.attributes["value"] = values.shown(f, v)
    yield e.start, e.end, e.start_tag()

