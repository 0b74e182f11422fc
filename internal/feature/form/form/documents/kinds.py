"""What documents of all kinds have."""

from .values import MAX_FIELDS, DocumentError


class Document:
    """An open document. Each kind has a method write, which returns it with values, by field."""

    kind = title = ""
    pages = scripts = 0  # scripts: of a PDF, those that are not run
    submit = None  # of an HTML form: how a browser would send it

    def __init__(self):
        self.fields, self.warnings = [], []

    def add(self, f):
        self.fields.append(f)
        if len(self.fields) > MAX_FIELDS:
            raise DocumentError("too_many_fields", f"the form has more than {MAX_FIELDS} fields")

    def describe(self):
        """Return the form for a person."""
        found = {"title": self.title, "pages": self.pages, "warnings": self.warnings, "scripts": self.scripts, "submit": self.submit}
        return {"kind": self.kind, "fields": [f.describe() for f in self.fields]} | {key: value for key, value in found.items() if value}

    def fit(self, f, value):
        """Return why a valid value cannot be shown in a field, or None."""
        return None

    def expand(self, rows):
        """Return the fields for data with this number of rows in each group."""
        return self.fields
