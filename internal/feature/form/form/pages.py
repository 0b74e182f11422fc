"""Pictures of the pages of a PDF.

PDFium draws them: the library in the package pypdfium2, which the operator may install. It runs in
this worker, with the rights and limits of the code, because the document is not trusted.
"""

import math
import struct
import zlib

from .error import FormError

MAX_PAGES = 20  # of one call
MAX_DPI = 300
_MAX_PIXELS = 20_000_000  # of a page; larger ones are drawn smaller


def draw(file, data, numbers, dpi):
    """Return a PNG of each page with one of the numbers, from 1; None means all pages."""
    if not 10 <= dpi <= MAX_DPI:
        raise ValueError(f"dpi is {dpi!r}; it must be 10 to {MAX_DPI}")
    library = _library(file)
    try:
        document = library.PdfDocument(data)
        document.init_forms()
    except library.PdfiumError:
        raise FormError(f"{file}: PDFium cannot read the file", [{"problem": "broken", "message": "PDFium cannot read the file"}]) from None
    try:
        return [_page(document[n - 1], dpi) for n in _numbers(numbers, len(document))]
    finally:
        document.close()


def _library(file):
    try:
        import pypdfium2
    except ImportError:
        message = "pictures of pages need the package pypdfium2, which is not installed here"
        hint = "ask the operator to add pypdfium2 to sandbox.packages, and to run `sandpiper packages lock` and `sandpiper packages install`"
        raise FormError(f"{file}: {message}: {hint}", [{"problem": "no_renderer", "message": message}]) from None
    return pypdfium2


def _numbers(numbers, count):
    if numbers is None:
        numbers = range(1, count + 1)
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    for n in numbers:
        if not isinstance(n, int) or not 1 <= n <= count:
            raise ValueError(f"there is no page {n!r}; the document has the pages 1 to {count}")
    if len(numbers) > MAX_PAGES:
        raise ValueError(f"{len(numbers)} pages are requested; at most {MAX_PAGES} are drawn in one call: pass images(pages=[1, 2, …])")
    return numbers


def _page(page, dpi):
    width, height = page.get_size()  # in points
    scale = min(dpi / 72, math.sqrt(_MAX_PIXELS / max(width * height, 1)))
    bitmap = page.render(scale=scale, rev_byteorder=True)
    try:
        return _png(bitmap.width, bitmap.height, bitmap.stride, memoryview(bitmap.buffer).cast("B"))
    finally:
        bitmap.close()
        page.close()


def _png(width, height, stride, rgb):
    rows = bytearray()
    for start in range(0, height * stride, stride):
        rows += b"\0"  # no filter
        rows += rgb[start : start + 3 * width]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
