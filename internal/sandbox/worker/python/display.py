"""Values that are shown: pictures for the client, and tables as Markdown.

It is imported for values of the packages in show.PACKAGES only.
"""

import os
import sys

ROWS, COLUMNS = 20, 30  # of a table in an answer
_CELL, _TABLE = 200, 6000  # characters
_CSV_CELLS = 5_000_000  # more are stored in a faster format


def result(screen, value, name):
    """Show value and return what describes it, or return value itself if it cannot be shown.

    name is the file of the workspace for the complete data of a table, without its ending;
    empty if the result is not for a model: tables remain as they are.
    """
    if figures := figures_of(value):
        for figure in figures:
            if not screen.was_shown(figure):
                screen.show(figure)
        return _without_artists(value)
    if table := Table.of(value):
        return table.described(name) if name else value
    return "[picture]" if screen.was_shown(value) or screen.show_picture(value) else value


def page(value, name, reason):
    """Store a chart that is no picture as a page, and return what describes it."""
    os.makedirs(os.path.dirname(name), exist_ok=True)
    value.write_html(name + ".html", include_plotlyjs="cdn") if hasattr(value, "write_html") else value.save(name + ".html")
    return f"[{name}.html; {reason}]"


def figures_of(value):
    """Return the matplotlib figures to which value belongs: a figure, axes, artists, or an array of those."""
    if "matplotlib.figure" not in sys.modules:
        return []
    from matplotlib.artist import Artist
    from matplotlib.figure import FigureBase

    found = []
    for part in _parts(value):
        if isinstance(part, Artist):
            part = part if isinstance(part, FigureBase) else part.get_figure(root=True)
        else:
            part = getattr(part, "figure", None)  # of seaborn's grids
        if isinstance(part, FigureBase) and not any(part is f for f in found):
            found.append(part)
    return found


def _is_artist(value):
    from matplotlib.artist import Artist

    return isinstance(value, Artist) or type(value).__module__.partition(".")[0] == "seaborn"


def _without_artists(value):
    """Return value with a word in place of artists; their text would be of no use."""
    if isinstance(value, dict):
        return {key: _without_artists(part) for key, part in value.items()}
    if all(map(_is_artist, _parts(value))):
        return "[picture]"
    return [_without_artists(part) for part in value] if isinstance(value, (list, tuple)) else value


def _parts(value, depth=0):
    """Yield value, or what is in it if it is a list, a tuple or an array of objects."""
    if isinstance(value, (list, tuple, dict)) and depth < 3:
        for part in list(value.values() if isinstance(value, dict) else value)[:100]:
            yield from _parts(part, depth + 1)
    elif type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") == "O":
        yield from value.flat
    else:
        yield value


class Table:
    """A DataFrame, Series or table of pandas, polars or Arrow."""

    levels = 0  # columns of the text that are the index

    @classmethod
    def of(cls, value):
        kind = _KINDS.get((type(value).__module__.partition(".")[0].lstrip("_"), type(value).__name__))
        return kind(value) if kind else None

    def described(self, name):
        """Return an object with the first rows, and the path of the complete data if there are more."""
        if len(self.types) < 2:  # a column that stands alone reads better as a list
            return self.value
        text, complete = self.markdown()
        about = {"table": text, "shape": [self.rows, len(self.types) - self.levels], "types": list(self.types.values())[:COLUMNS]}
        if not complete:
            try:
                os.makedirs(os.path.dirname(name), exist_ok=True)
                about["path"], about["next"] = self.write(name)
            except Exception as e:  # the table is worth more than its file
                about["next"] = f"the complete table could not be stored ({type(e).__name__}): return a part of it, or write it to a file"
        return about

    def markdown(self, rows=ROWS):
        """Return the first rows as text, and whether that is the whole table."""
        names = list(self.types)[:COLUMNS]
        lines = [[str(n) for n in names], ["---"] * len(names)]
        lines += [list(row)[:COLUMNS] for row in self.head(rows)]
        self._clipped = False
        text, shown = "", -2
        for line in lines:
            line = "| " + " | ".join(map(self._cell, line)) + " |\n"
            if shown > 0 and len(text) + len(line) > _TABLE:
                break
            text, shown = text + line, shown + 1
        return text, shown == self.rows and len(names) == len(self.types) and not self._clipped

    def _cell(self, value):
        if isinstance(value, float):
            text = "" if value != value else f"{value:.10g}"
        else:
            text = "" if value is None or type(value).__name__ in ("NaTType", "NAType") else " ".join(str(value).split())
        if len(text) > _CELL:  # cut between words, since a part of a private value would not be found
            self._clipped = True
            text = text[:_CELL].rpartition(" ")[0] + "…"
        return text.replace("|", "\\|")


class _Pandas(Table):
    def __init__(self, value):
        self.value = value
        if value.ndim == 1:
            value = value.to_frame(value.name if value.name is not None else "value")
        self.index = type(value.index).__name__ != "RangeIndex"
        self.frame, self.rows = value, len(value)
        head = self._head(0)
        self.types = {str(n): str(t) for n, t in zip(head.columns, head.dtypes)}
        self.levels = value.index.nlevels if self.index else 0

    def _head(self, rows):
        head = self.frame.head(rows)
        if self.index:
            try:
                return head.reset_index()
            except ValueError:  # a column has its name already
                self.index = False
        return head

    def head(self, rows):
        return self._head(rows).itertuples(index=False, name=None)

    def write(self, name):
        if self.frame.size > _CSV_CELLS:
            self.frame.to_pickle(name + ".pickle")
            return name + ".pickle", f"df = pd.read_pickle({name + '.pickle'!r})"
        self.frame.to_csv(name + ".csv", index=self.index)
        return name + ".csv", f"df = pd.read_csv({name + '.csv'!r})"


class _Polars(Table):
    def __init__(self, value):
        self.value = value
        self.frame = value.to_frame() if type(value).__name__ == "Series" else value
        self.rows, self.types = self.frame.height, {n: str(t) for n, t in self.frame.schema.items()}

    def head(self, rows):
        return self.frame.head(rows).rows()

    def write(self, name):
        self.frame.write_parquet(name + ".parquet")
        return name + ".parquet", f"df = pl.read_parquet({name + '.parquet'!r})"


class _Arrow(Table):
    def __init__(self, value):
        self.value, self.rows = value, value.num_rows
        self.types = {f.name: str(f.type) for f in value.schema}

    def head(self, rows):
        return zip(*(column.to_pylist() for column in self.value.slice(0, rows).columns))

    def write(self, name):
        import pyarrow

        with pyarrow.OSFile(name + ".arrow", "wb") as f, pyarrow.ipc.new_file(f, self.value.schema) as out:
            out.write(self.value)
        return name + ".arrow", f"table = pyarrow.ipc.open_file({name + '.arrow'!r}).read_all()"


_KINDS = {
    ("pandas", "DataFrame"): _Pandas, ("pandas", "Series"): _Pandas, ("geopandas", "GeoDataFrame"): _Pandas,
    ("polars", "DataFrame"): _Polars, ("polars", "Series"): _Polars,
    ("pandas", "Styler"): lambda value: _Pandas(value.data), ("duckdb", "DuckDBPyRelation"): lambda value: _Pandas(value.df()),
    ("pyarrow", "Table"): _Arrow, ("pyarrow", "RecordBatch"): _Arrow,
}
