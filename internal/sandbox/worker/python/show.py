"""show(): images for the client, and tables as text."""

import base64
import io
import json
import os
import sys

from . import convert

PACKAGES = frozenset(("matplotlib", "PIL", "seaborn", "plotly", "altair", "pandas", "geopandas", "polars", "pyarrow", "duckdb", "_duckdb", "numpy"))
current = None  # the Screen of this process
received = False  # a tool has answered with a part that is not JSON
MAX_IMAGES = 8
MAX_BYTES = 5 << 20
_DEPTH, _MOST = 4, 1000  # of lists and dicts in which pictures are looked for
_MAX_ROWS = 50
_MAX_CELL = 60

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_dumps = json.JSONEncoder().encode


class Screen:
    def __init__(self, channel, stdout, read_file):
        self._channel, self._stdout, self._read_file = channel, stdout, read_file
        self.begin()

    def begin(self):
        """Forget the pictures of the previous execution."""
        self.shown, self._figures = 0, []

    def was_shown(self, obj):
        return any(obj is f for f in self._figures)

    def display(self, *objects):
        """Show each object, as show does."""
        for obj in objects:
            self.show(obj)

    def result(self, value, name):
        """Show a result that is a picture or a table of a package, and return its description; else return value.

        Pictures in lists and dicts are shown, too, with a word in their place.
        """
        if received or "PIL.Image" in sys.modules:
            value = self._without_pictures(value)
        if not _is_package(value):
            return value
        from . import display

        try:
            return display.result(self, value, name)
        except NoPicture as e:
            return display.page(value, name, e) if name else value

    def show(self, obj):
        """Show a figure, axes, a PIL image, the bytes or the file name of a picture, or a table."""
        if _is_package(obj):
            from . import display

            if (figures := display.figures_of(obj)) and figures != [obj]:
                self.display(*figures)
                return
            if frame := display.Table.of(obj):
                text, _ = frame.markdown(_MAX_ROWS)
                self._stdout.item(f"{text}{frame.rows} rows × {len(frame.types)} columns")
                return
        if self.show_picture(obj):
            return
        if isinstance(obj, str):
            raise FileNotFoundError(f"File not found: {obj}")
        rows = _rows(obj)
        self._stdout.item(table(rows) if rows else convert.indented(obj))

    def show_picture(self, obj):
        """Show obj if it is a picture, and report that."""
        data = self._picture(obj)
        if data is None:
            return False
        self._send(data)
        self._figures.append(obj)
        _close(obj)
        return True

    def _without_pictures(self, value, depth=0):
        kind = type(value)  # isinstance would ask a placeholder of a dry run for its type
        if kind.__module__ == "servers" and kind.__name__ == "Content" or kind.__module__.partition(".")[0] == "PIL":
            return "[picture]" if self._shows(value) else value
        if kind.__module__ == "servers" and kind.__name__ == "Structured":
            for part in value.parts:
                self._without_pictures(part)
        if kind not in (list, tuple, dict) or depth == _DEPTH or len(value) > _MOST:
            return value
        pairs = value.items() if kind is dict else enumerate(value)
        new = {k: self._without_pictures(v, depth + 1) for k, v in pairs}
        if all(v is value[k] for k, v in new.items()):
            return value
        return new if kind is dict else kind(new.values())

    def _shows(self, obj):
        """Report whether obj was shown or is a picture that is shown now, if it fits."""
        if self.was_shown(obj):
            return True
        try:
            if type(obj).__name__ != "Content":
                return self.show_picture(obj)
            if obj.kind != "image" or mime_type(obj.data or b"") is None:
                return False
            self._send(obj.data)
        except ValueError:  # too large, or one too many
            return False
        self._figures.append(obj)
        return True

    def _picture(self, obj):
        if isinstance(obj, (bytes, bytearray, memoryview)):
            return bytes(obj)
        if isinstance(obj, os.PathLike) or isinstance(obj, str):
            return self._read_file(obj, binary=True)
        if hasattr(obj, "savefig"):
            return _saved(lambda f: obj.savefig(f, format="png", bbox_inches="tight"))
        if hasattr(obj, "save") and hasattr(obj, "getbbox"):
            return _saved(lambda f: obj.save(f, format="PNG"))
        for method in ("_repr_png_", "_repr_jpeg_"):
            if hasattr(obj, method) and (data := getattr(obj, method)()):
                return base64.b64decode(data) if isinstance(data, str) else data
        _refuse_chart(obj)
        return None

    def _send(self, data):
        mime = mime_type(data)
        if mime is None:
            raise ValueError(f"show: the bytes begin with {data[:8]!r}; PNG, JPEG, GIF and WebP are pictures")
        if len(data) > MAX_BYTES:
            raise ValueError(f"show: the picture has {len(data)} bytes, at most {MAX_BYTES} are allowed: make it smaller")
        if self.shown >= MAX_IMAGES:
            raise ValueError(f"show: at most {MAX_IMAGES} pictures per execution: write the others to files")
        self.shown += 1
        self._channel.send(b"I", _dumps({"mime": mime, "data": base64.b64encode(data).decode()}).encode())


def mime_type(data):
    for magic, mime in _MAGIC:
        if data.startswith(magic):
            return mime
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _is_package(value):
    """Report whether value is of one of PACKAGES, or may contain figures of matplotlib."""
    kind = type(value)  # isinstance would ask a placeholder of a dry run for its type
    package = getattr(kind, "__module__", None)
    if issubclass(kind, (list, tuple, dict)):
        return "matplotlib.figure" in sys.modules
    return isinstance(package, str) and package.partition(".")[0] in PACKAGES


class NoPicture(ValueError):
    """A chart cannot be drawn here."""


def _refuse_chart(obj):
    """Raise NoPicture for a chart, which only a browser or a program with epoll draws."""
    package = type(obj).__module__.partition(".")[0]
    if package == "altair" and hasattr(obj, "save"):
        raise NoPicture("an Altair chart cannot become a picture here: use matplotlib for one, or save() for a page")
    if package == "plotly" and hasattr(obj, "write_html"):
        raise NoPicture("a Plotly figure needs a browser to become a picture: use matplotlib for one, or write_html() for a page")


def _close(figure):
    """Close a figure of pyplot, so that the next plot gets a new one."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot and hasattr(figure, "savefig") and hasattr(figure, "axes"):
        pyplot.close(figure)


def _saved(save):
    f = io.BytesIO()
    save(f)
    return f.getvalue()


def _rows(obj):
    """Return obj as a list of dicts if it is a table, else None."""
    if not isinstance(obj, (list, tuple)):
        if hasattr(obj, "to_dicts") or hasattr(obj, "to_dict") and hasattr(obj, "columns"):
            obj = convert.rows(obj)
    return obj if isinstance(obj, (list, tuple)) and obj and all(isinstance(r, dict) for r in obj) else None


def table(rows):
    """Return rows, a list of dicts, as aligned text."""
    names = list(dict.fromkeys(k for row in rows[:_MAX_ROWS] for k in row))
    cells = [[_cell(n) for n in names]]
    cells += [[_cell(row.get(n, "")) for n in names] for row in rows[:_MAX_ROWS]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    right = [all(isinstance(row.get(n, 0), (int, float)) for row in rows[:_MAX_ROWS]) for n in names]
    lines = [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right)).rstrip()
        for line in cells
    ]
    if len(rows) > _MAX_ROWS:
        lines.append(f"… {len(rows) - _MAX_ROWS} more rows")
    return "\n".join(lines)


def _cell(value):
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"
