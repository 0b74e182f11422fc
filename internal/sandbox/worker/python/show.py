"""show(): images for the client, and tables as text."""

import base64
import io
import json
import os

from . import convert

MAX_IMAGES = 8
MAX_BYTES = 5 << 20
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
        self.shown = 0

    def show(self, obj):
        """Show a matplotlib figure, a PIL image, the bytes or the file name of a picture, or a table."""
        data = self._picture(obj)
        if data is not None:
            self._send(data)
        elif isinstance(obj, str):
            raise FileNotFoundError(f"File not found: {obj}")
        else:
            rows = _rows(obj)
            self._stdout.item(table(rows) if rows else convert.indented(obj))

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
