"""Text in the fields of a PDF: which characters can be shown, how large, and the drawing of it."""

import functools
import re
import unicodedata

from ..pypdf import generic
from ..pypdf._codecs.core_font_metrics import CORE_FONT_METRICS

# Sizes of text in points. A size that the form leaves open is at most _BIGGEST; a text that does
# not fit is set smaller, down to _SMALLEST.
_BIGGEST, _SMALLEST = 12.0, 5.0
_LINE = 1.15  # height of a line, in sizes
_DESCENT, _CAPITAL = 0.22, 0.72  # in sizes
_PADDING = 2.0
_MAX_CODES = 31  # below those of the encoding
_WIDTHS = CORE_FONT_METRICS["Helvetica"].character_widths
_UNKNOWN_WIDTH = 600

# The names that glyphs have after their letter, by combining character.
_ACCENTS = {
    0x300: "grave", 0x301: "acute", 0x302: "circumflex", 0x303: "tilde", 0x304: "macron", 0x306: "breve", 0x307: "dotaccent",
    0x308: "dieresis",
    0x30A: "ring", 0x30B: "hungarumlaut", 0x30C: "caron", 0x326: "commaaccent", 0x327: "cedilla", 0x328: "ogonek",
}
_GLYPHS = {
    "ł": "lslash", "Ł": "Lslash", "đ": "dcroat", "Đ": "Dcroat", "ı": "dotlessi", "ħ": "hbar", "Ħ": "Hbar", "ŋ": "eng", "Ŋ": "Eng",
    "ŧ": "tbar", "Ŧ": "Tbar",
}


def _code(c):
    """Return the code of a character in WinAnsiEncoding, or None."""
    try:
        return c.encode("cp1252")[0] if c.isprintable() or c in "\xa0\xad" else None
    except UnicodeEncodeError:
        return None


def _glyph(c):
    """Return the name of the glyph of a Latin letter that WinAnsiEncoding lacks; "" if it has none in the standard fonts of readers."""
    if c in _GLYPHS:
        return _GLYPHS[c]
    letter, *accents = unicodedata.normalize("NFD", c)
    accent = _ACCENTS.get(ord(accents[0])) if len(accents) == 1 and letter <= "z" else None
    if accent == "cedilla" and letter in "GgKkLlNnRr":
        accent = "commaaccent"
    return letter + accent if accent else ""


def unsupported(s):
    """Return the first character that cannot be shown, or None."""
    codes = set()
    for c in s:
        if c in "\n\t\r" or _code(c) is not None:
            continue
        codes.add(c)
        if not _glyph(c) or len(codes) > _MAX_CODES:
            return c
    return None


def _width(s, size):
    """Return the width of a text in Helvetica."""
    return sum(_char_width(c) for c in s) * size / 1000


@functools.cache
def _char_width(c):
    if _code(c) is None:
        c = unicodedata.normalize("NFD", c)[0]  # an accent adds no width
    return _WIDTHS.get(c) or _UNKNOWN_WIDTH


def _wrap(s, size, room):
    """Break a text into lines at blanks, and within words that are too long."""
    lines = []
    for paragraph in s.split("\n"):
        line, used, blank = "", 0.0, _width(" ", size)
        for word in paragraph.split():
            wide = _width(word, size)
            if used + (blank if line else 0) + wide <= room:
                line, used = f"{line} {word}" if line else word, used + (blank if line else 0) + wide
                continue
            if line:
                lines.append(line)
            while wide > room and len(word) > 1:
                n = _fitting(word, size, room)
                lines.append(word[:n])
                word = word[n:]
                wide = _width(word, size)
            line, used = word, wide
        lines.append(line)
    return lines


def _fitting(word, size, room):
    """Return how many characters of a word fit, at least one."""
    n, used = 0, 0.0
    while n < len(word) and (used := used + _width(word[n], size)) <= room:
        n += 1
    return max(n, 1)


class Look:
    """How a field shows text, from its widget and its default appearance."""

    border = 1.0
    rotated = comb = align = 0  # comb: the number of cells
    size = 0.0  # 0 means that it is chosen
    color = "0 g"
    background = frame = ""  # operators; "" means none
    multiline = False

    def __init__(self, width, height):
        self.width, self.height = width, height

    def layout(self, s):
        """Set a text in the largest size that fits; return None if none does."""
        s = s.replace("\r\n", "\n").replace("\t", " ")
        size = self.size or (_BIGGEST if self.multiline else min(_BIGGEST, (self.height - 2 * self.border) / _LINE))
        while True:
            size = max(size, min(_SMALLEST, size))
            lines = _wrap(s, size, self._room()) if self.multiline else [s]
            if self._fits(lines, size):
                return Layout(self, lines, size)
            if size <= _SMALLEST:
                return None
            size = max(size - 0.5, _SMALLEST)

    def _room(self):
        return self.width - 2 * self.border - 2 * _PADDING

    def _fits(self, lines, size):
        if self.comb:
            return len(lines[0]) <= self.comb
        if self.multiline and len(lines) * size * _LINE > self.height - 2 * self.border:
            return False
        return all(_width(line, size) <= self._room() for line in lines)

    def box(self):
        """Draw the background and the frame of a field."""
        b, drawn = self.border, ""
        if self.background:
            drawn += f"q {self.background} 0 0 {num(self.width)} {num(self.height)} re f Q\n"
        if self.frame and b > 0:
            drawn += f"q {self.frame} {num(b)} w {num(b / 2)} {num(b / 2)} {num(self.width - b)} {num(self.height - b)} re S Q\n"
        return drawn

    def start(self, wide):
        """Return where a line of some width begins."""
        if self.align == 1:
            return (self.width - wide) / 2
        return self.width - self.border - _PADDING - wide if self.align == 2 else self.border + _PADDING


class Layout:
    """A text set in lines."""

    def __init__(self, look, lines, size):
        self._look, self._lines, self._size = look, lines, size
        others = dict.fromkeys(c for line in lines for c in line if _code(c) is None and _glyph(c))
        self._codes = {c: i for i, c in enumerate([*others][:_MAX_CODES], 1)}  # of characters that the encoding of the font lacks

    def font(self):
        """Return Helvetica with the codes of the text. Every reader has the font."""
        font = names({"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"})
        if self._codes:
            encoding = names({"/Type": "/Encoding", "/BaseEncoding": "/WinAnsiEncoding"})
            glyphs = [generic.NameObject("/" + _glyph(c)) for c in self._codes]
            encoding[generic.NameObject("/Differences")] = generic.ArrayObject([generic.NumberObject(1), *glyphs])
            font[generic.NameObject("/Encoding")] = encoding
        return font

    def draw(self):
        """Return the content stream of the text in its field."""
        look, size, b = self._look, self._size, self._look.border
        inside = f"{num(b)} {num(b)} {num(max(0, look.width - 2 * b))} {num(max(0, look.height - 2 * b))}"
        y = look.height - b - size * (_LINE - _DESCENT) if look.multiline else (look.height - size * _CAPITAL) / 2
        if look.comb:
            cell = look.width / look.comb
            placed = [(i * cell + (cell - _width(c, size)) / 2, y, c) for i, c in enumerate(self._lines[0])]
        else:
            placed = [(look.start(_width(line, size)), y - i * size * _LINE, line) for i, line in enumerate(self._lines)]
        shown = "".join(f"1 0 0 1 {num(x)} {num(y)} Tm {self._hex(s)} Tj\n" for x, y, s in placed)
        return f"{look.box()}/Tx BMC\nq {inside} re W n\nBT /Helv {num(size)} Tf {look.color}\n{shown}ET Q\nEMC\n"

    def _hex(self, s):
        """Encode a text in the encoding of the font, as a string of a content stream."""
        codes = [_code(c) for c in s]
        return "<" + bytes(self._codes.get(c, 0) if code is None else code for c, code in zip(s, codes)).hex() + ">"


def names(entries):
    """Return a dictionary of names."""
    return generic.DictionaryObject({generic.NameObject(key): generic.NameObject(name) for key, name in entries.items()})


def num(v):
    """Write a number as PDF does."""
    return f"{v:.4f}".rstrip("0").rstrip(".") if v else "0"


_OPERANDS = {"g": 1, "rg": 3, "k": 4}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)", re.ASCII)


def parse_appearance(appearance):
    """Return the size and the colour of a default appearance, such as "/Helv 10 Tf 0 g"."""
    size, color, words = Look.size, Look.color, appearance.split()
    for i, word in enumerate(words):
        n = _OPERANDS.get(word, 1 if word == "Tf" else 0)
        before = words[i - n : i] if 0 < n <= i else []
        if not before or not all(map(_NUMBER.fullmatch, before)):
            continue
        if word == "Tf":
            size = float(before[0]) if 0 <= float(before[0]) < 1000 else size
        else:
            color = " ".join([*(num(float(x)) for x in before), word])
    return size, color


def color_of(parts, stroke):
    """Return the operator for a colour of a widget."""
    op = {1: "g", 3: "rg", 4: "k"}.get(len(parts))
    return " ".join([*map(num, parts), op.upper() if stroke else op]) if op else ""
