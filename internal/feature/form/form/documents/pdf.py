"""PDF files with fields (AcroForm)."""

import io
import logging

from .. import pypdf
from ..pypdf import errors, generic
from . import kinds, names, pdf_fill, values
from .pdf_objects import array, dictionary, text, value
from .pdf_scripts import Scripts, format_in
from .values import DocumentError, Field

_MAX_DEPTH, _MAX_NODES, _MAX_PAGES = 32, 50_000, 10_000
_MAX_DECODED = 16 << 20  # bytes of a stream
_LIMITS = {
    "zlib_maximum_output_length": _MAX_DECODED, "lzw_maximum_output_length": _MAX_DECODED,
    "disable_legacy_handling": True, "jbig2dec_binary": None,
}
_END = 4096  # bytes at the end of a file, which are searched for a sign of encryption

# Flags of fields (PDF 32000-1, tables 221, 226, 228, 230).
_READ_ONLY, _REQUIRED, _MULTILINE, _RADIO, _PUSHBUTTON = 1 << 0, 1 << 1, 1 << 12, 1 << 15, 1 << 16
_COMBO, _EDIT, _FILE, _MULTI, _COMB = 1 << 17, 1 << 18, 1 << 20, 1 << 21, 1 << 24

logging.getLogger(pypdf.__name__).setLevel(logging.CRITICAL + 1)  # its warnings are about the document


class Document(kinds.Document):
    """The form of a PDF. To fill it in, the file is copied to a writer, and the fields are those of the copy."""

    kind = "pdf"

    def __init__(self, data, fill):
        super().__init__()
        with pypdf.apply_configuration(**_LIMITS):
            try:
                self._read(data, fill)
            except (DocumentError, MemoryError):
                raise
            except Exception as e:  # the library fails in many ways on a malformed document
                if b"/Encrypt" in data[-_END:]:
                    raise _encrypted() from None
                raise DocumentError("broken", f"the PDF cannot be read: {_reason(e)}") from None

    def _read(self, data, fill):
        self._pdf = reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted:
            raise _encrypted()
        if fill:
            self._pdf = pypdf.PdfWriter(clone_from=reader, keep_initial_header=True)
        root = self._pdf.root_object
        form = value(root.get("/AcroForm"))
        if not isinstance(form, generic.DictionaryObject):
            raise DocumentError("no_fields", "the PDF has no form: it contains text only, or a picture of a form")
        if "/XFA" in form:
            hint = "ask the publisher for a version with an ordinary form (AcroForm)"
            raise DocumentError("xfa", f"the PDF has an XFA form, which only Adobe's programs can fill in; {hint}")
        self._nodes, self._names, self._page_of = 0, {}, {}
        self._scripts = Scripts(self._visit)
        self._appearance = text(form.get("/DA"))
        self._walk_pages()
        for o in array(form.get("/Fields")):
            self._walk(o, _Inherited(), 0)
        self._scripts.of_document(root, form)
        if places := sorted(self._scripts.places):
            self.scripts = len(places)
            skipped = "values that they would compute or check are not"
            self.warnings.append(f"the PDF has scripts ({names.some(places)}), which are not run: {skipped}")
        self.title = text(dictionary(reader.trailer.get("/Info")).get("/Title"))

    def _visit(self):
        """Count an object that is visited; report whether there may be more."""
        self._nodes += 1
        return self._nodes <= _MAX_NODES

    def _walk_pages(self):
        """Find the page of each widget, by the number of its object."""
        for self.pages, page in enumerate(self._pdf.pages, 1):
            if self.pages > _MAX_PAGES:
                raise DocumentError("too_large", f"the PDF has more than {_MAX_PAGES} pages")
            for o in array(page.get("/Annots")):
                if isinstance(o, generic.IndirectObject):
                    self._page_of[o.idnum] = self.pages
            if "/AA" in page and self._scripts.within(page["/AA"]):
                self._scripts.places.add(f"page {self.pages}")

    def _walk(self, o, above, depth):
        """Add the terminal fields at or below o."""
        if not self._visit() or depth > _MAX_DEPTH:
            raise DocumentError("broken", "the fields of the PDF are nested or repeated without end")
        d = value(o)
        if not isinstance(d, generic.DictionaryObject):
            return  # a field that was deleted
        at = _Inherited(above, d)
        kids = array(d.get("/Kids"))
        if any("/T" in dictionary(kid) for kid in kids):  # fields, rather than widgets of this one
            for kid in kids:
                self._walk(kid, at, depth + 1)
        else:
            self._add(d, kids or [o], at)

    def _add(self, d, kids, at):
        """Add one terminal field."""
        f = Field(self._unique(at.name))
        f.label, f.required, f.read_only = names.clean(at.label), bool(at.flags & _REQUIRED), bool(at.flags & _READ_ONLY)
        f.target = target = pdf_fill.Target(self._pdf, d, at.kind, at.appearance or self._appearance, at.align)
        for kid in kids:
            if w := value(kid):
                if isinstance(kid, generic.IndirectObject) and not f.page:
                    f.page = self._page_of.get(kid.idnum, 0)
                target.add(w)
                self._scripts.of_field(f, w)
        self._scripts.of_field(f, d)
        if at.kind == "Sig" and at.value is not None:
            raise DocumentError("signed", f'the PDF is signed (field "{f.name}"); filling it in would make the signature invalid')
        if at.kind == "Sig":
            self.warnings.append(f'field "{f.name}" is for a signature, which a person must add')
        elif at.kind == "Tx" and at.flags & _FILE:
            self.warnings.append(f'field "{f.name}" is for a file, which is not supported')
        elif describe := None if at.kind == "Btn" and at.flags & _PUSHBUTTON else _DESCRIBERS.get(at.kind):
            describe(f, at)
            self.add(f)

    def _unique(self, name):
        """Make a name different from those before."""
        name = name or "field"
        self._names[name] = n = self._names.get(name, 0) + 1
        return name if n == 1 else self._unique(f"{name} ({n})")

    def fit(self, f, v):
        return pdf_fill.problem(f, v)

    def write(self, filled):
        try:
            for f, v in filled.items():
                pdf_fill.fill(f, v)
            out = io.BytesIO()
            self._pdf.write(out)
        except (DocumentError, MemoryError):
            raise
        except Exception as e:
            raise DocumentError("broken", f"the filled PDF cannot be written: {_reason(e)}") from None
        return out.getvalue()


class _Inherited:
    """The entries of a field and of its parents."""

    name = kind = appearance = label = ""
    flags = align = length = 0
    value = options = None

    def __init__(self, above=None, d=generic.DictionaryObject()):
        if above:
            self.__dict__ |= above.__dict__
        if part := text(d.get("/T")):
            self.name = f"{self.name}.{part}".removeprefix(".")
        for key, name in (("/FT", "kind"), ("/DA", "appearance"), ("/TU", "label")):
            if s := text(d.get(key)):
                setattr(self, name, s)
        for key, name in (("/Ff", "flags"), ("/Q", "align"), ("/MaxLen", "length")):
            if isinstance(n := value(d.get(key)), int):
                setattr(self, name, int(n))
        for key, name in (("/V", "value"), ("/Opt", "options")):
            if (o := value(d.get(key))) is not None:
                setattr(self, name, o)


def _reason(e):
    return f"{e!s:.200}" if isinstance(e, errors.PyPdfError) else "it is malformed"


def _encrypted():
    return DocumentError("encrypted", "the PDF is encrypted; save a copy without a password and restrictions")


def _describe_text(f, at):
    """Describe a field for text or a date."""
    f.max_length, f.multiline = max(at.length, 0), bool(at.flags & _MULTILINE)
    f.format = f.format or format_in(f.label)
    f.type = values.DATE if f.format else values.TEXT
    f.value = text(at.value) or None
    if at.flags & _COMB and not f.multiline:
        f.target.comb = f.max_length


def _describe_button(f, at):
    """Describe a checkbox, or a group of buttons of which one is selected."""
    state = text(at.value) if isinstance(at.value, generic.NameObject) else ""
    labels, options = array(at.options), {}
    for i, (w, on) in enumerate(f.target.widgets):
        if on and on not in options:
            label = text(labels[i]) if i < len(labels) else ""
            options[on] = label or (names.clean(text(w.get("/TU"))) if len(f.target.widgets) > 1 else "")
    if len(options) <= 1 and not at.flags & _RADIO:
        f.type, f.value = values.BOOLEAN, True if state not in ("", "Off") else None
        return
    f.type, f.options = values.CHOICE, list(options.items())
    f.value = state if state not in ("", "Off") else None


def _describe_choice(f, at):
    for o in array(at.options):
        pair = array(o)
        option, label = map(text, pair) if len(pair) == 2 else (text(o), "")
        f.options.append((option, "" if label == option else label))
    f.type, f.open = values.CHOICE, bool(at.flags & _COMBO and at.flags & _EDIT)
    if at.flags & _MULTI and not at.flags & _COMBO:
        f.type = values.CHOICES
    f.value = text(at.value) or None


_DESCRIBERS = {"Tx": _describe_text, "Btn": _describe_button, "Ch": _describe_choice}
