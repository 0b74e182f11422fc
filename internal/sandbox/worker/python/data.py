"""Helper functions for lists of records."""

from itertools import islice

from . import convert


def filter_by_field(data, field, value):
    """Return the records of data whose field equals value."""
    return [d for d in data if hasattr(d, "get") and d.get(field) == value]


def summarize_list(data, limit=10):
    """Return the number of items in data and the first few of them."""
    items = data if hasattr(data, "__len__") else list(data)
    return {"count": len(items), "sample": list(islice(items, max(limit, 0)))}


def aggregate_stats(data, numeric_fields=None):
    """Return the count of data and sum, average, minimum and maximum of its numeric fields.

    Without numeric_fields, these are the fields that hold numbers in the first
    record. A record without a number in a field is ignored for that field.
    """
    data = list(data)
    stats = {"count": len(data)}
    if not data:
        return stats
    if numeric_fields is None:
        first = data[0]
        numeric_fields = [k for k, v in first.items() if _number(v)] if isinstance(first, dict) else []
    for field in numeric_fields:
        values = [d[field] for d in data if isinstance(d, dict) and _number(d.get(field))]
        if values:
            total = sum(values)
            stats[f"{field}_sum"] = total
            stats[f"{field}_avg"] = total / len(values)
            stats[f"{field}_min"] = min(values)
            stats[f"{field}_max"] = max(values)
    return stats


def _number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def format_output(data, max_chars=5000):
    """Return data as indented JSON text of at most max_chars characters."""
    text = convert.indented(data)
    if len(text) <= max_chars:
        return text
    note = f"\n… {len(text)} characters in all"
    if len(note) * 2 > max_chars:  # the data is worth more than the note
        note = "…"
    return (text[: max(max_chars - len(note), 0)] + note)[: max(max_chars, 0)]
