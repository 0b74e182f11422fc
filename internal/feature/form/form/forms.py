"""Forms: PDF files with fields, HTML pages and JSON Schemas, filled in with data.

The package documents reads and writes the documents, in a child process. The daemon checks a document
that was made of a JSON Schema.
"""

import json
import os
import re

from ... import convert
from .error import FormError

_MAX_BYTES = 8 << 20
_MAX_DATA = 1 << 20
_ASKED = 20  # fields in one question
_ROUNDS = 10  # questions for one form
_SHOWN = 20  # problems in a message
_PLAIN = r"[A-Za-z_][A-Za-z0-9_]{0,60}"
_loads = json.JSONDecoder().decode


class Forms:
    """Fills in forms: forms.open(file) reads a PDF with fields, an HTML page or a JSON Schema."""

    Error = FormError

    def __init__(self, channel, files, get_state, ask):
        self._channel, self._files, self._get_state, self._ask = channel, files, get_state, ask  # get_state returns a function, or None

    def open(self, file):
        """Read the form in a file of the workspace; raise forms.Error if it has none."""
        data = self._files.read_file(file, binary=True)
        if len(data) > _MAX_BYTES:
            raise FormError(f"{file} has {len(data)} bytes; at most {_MAX_BYTES} are supported", [{"problem": "too_large", "message": "the file is too large"}])
        form = Form(self, file, data)
        found = form._process({"op": "open"})["form"]
        form.kind, form.fields = found["kind"], found["fields"]
        form.title, form.pages = found.get("title", ""), found.get("pages", 0)
        form.warnings, form.action = found.get("warnings", []), found.get("submit")
        return form

    def __repr__(self):
        return self.__doc__


class Form:
    """A form: .fields, .fill(data), .review(), .values, .save(file), .images()."""

    def __init__(self, forms, file, data):
        self._forms, self._data = forms, data
        self._filled = None
        self.file = os.fspath(file)
        self.values, self.unused = {}, []

    def __repr__(self):
        return f"<form {self.file}: {self.kind}, {len(self.fields)} fields>"

    def check(self, data=None, profile=None):
        """Return the values, problems, missing fields, unused data and review of filling in data, without keeping it."""
        found = self._process({"op": "fill", "data": _object(data, "data"), "profile": self._profile(profile), "ignore_scripts": True})["filled"]
        missing = [m["name"] for m in found["missing"]]
        return {"values": found["values"], "problems": found["problems"], "missing": missing, "unused": found["unused"], "review": found["review"]}

    def fill(self, data=None, profile=None, ask=True, ignore_scripts=False):
        """Fill in data, by names like those of the fields, and return the form.

        A field that data has no value for is filled from the state "profile" (profile=False: not; or
        a dict). A required field that is still empty is asked for (ask=False: not). All problems are
        raised at once as forms.Error, whose .problems lists them; then nothing is filled in.
        """
        request = {"op": "fill", "data": _object(data, "data"), "profile": self._profile(profile), "ignore_scripts": bool(ignore_scripts)}
        answers, complaints = {}, {}
        for _ in range(_ROUNDS):
            found = self._process({**request, "answers": answers})["filled"]
            problems, missing = found["problems"], found["missing"]
            wrong = [p for p in problems if p.get("field") not in answers]
            if wrong or not problems and not missing:
                break
            complaints = {p["field"]: p["message"] for p in problems}
            for name in complaints:
                del answers[name]
            if problems:  # ask again for these alone
                missing = [m for m in asked if m["name"] in complaints]
            asked = missing[:_ASKED]
            got = self._question(asked, len(missing), complaints) if ask else None
            if not got:
                break
            answers.update(got)
        self._refuse(problems, missing)
        self._filled = found["document"]
        self.values, self.unused, self._review = found["values"], found["unused"], found["review"]
        return self

    def review(self):
        """Return what was filled in as a Markdown table."""
        self._check_filled()
        return self._review

    def save(self, file):
        """Write the filled form to another file of the workspace, atomically."""
        self._check_filled()
        files = self._forms._files
        if files._inside(file) == files._inside(self.file):
            raise ValueError(f"{file} is the form itself, which stays unchanged: name another file")
        return files.write_file(file, self._filled)

    def images(self, pages=None, dpi=100):
        """Return a PNG of each page of a PDF, filled in or not, for show() or write_file().

        pages are numbers from 1; without them all pages are drawn, at most 20. This needs the
        package pypdfium2; without it forms.Error is raised.
        """
        if self.kind != "pdf":
            raise ValueError(f"{self.file} is no PDF; only a PDF has pages")
        from . import pages as pictures

        return pictures.draw(self.file, self._filled or self._data, pages, dpi)

    def _check_filled(self):
        if self._filled is None:
            raise ValueError("the form is not filled in: call fill(data) first")

    def _profile(self, profile):
        if profile is None:
            get_state = self._forms._get_state()
            profile = get_state("profile") if get_state else None
            return profile if isinstance(profile, dict) else None
        return None if profile is False else _object(profile, "profile")

    def _process(self, request):
        from . import documents  # later than the first execution

        answer, document = documents.process(request, self._data)
        wrong = answer.get("error")
        if document and not wrong:
            answer["filled"]["document"] = document
            if self.kind == "json_schema":
                args = {"schema": self._data.decode("utf-8-sig"), "document": document.decode()}
                wrong = self._forms._channel.call("conforms", args)
        if wrong:
            raise FormError(f"{self.file}: {wrong['message']}", [wrong])
        return answer

    def _refuse(self, problems, missing):
        problems = problems + [
            {"field": m["name"], "problem": "missing", "message": f"{m['schema']['title']}: a value is required, and there is none in the data"} for m in missing
        ]
        if problems:
            lines = [f"{p['message']} [{p['field']}: {p['problem']}]" for p in problems[:_SHOWN]]
            if len(problems) > _SHOWN:
                lines.append(f"and {len(problems) - _SHOWN} more, in .problems of the error")
            raise FormError(f"{self.file} is not filled in: " + "; ".join(lines), problems)

    def _question(self, missing, total, complaints):
        """Ask the person for missing values; return those that were given, by field."""
        names = {m["name"] if re.fullmatch(_PLAIN, m["name"]) else f"field_{i}": m for i, m in enumerate(missing)}
        properties = {key: m["schema"] for key, m in names.items()}
        required = [key for key in names]
        rest = f" {total} are missing in all." if total > len(missing) else ""
        text = f"To fill in {self.file}, {len(missing)} more values are needed.{rest}"
        if complaints:
            text = "These values cannot be filled in:\n" + "\n".join(list(complaints.values())[:_SHOWN])
        given = self._forms._ask(text[:3000], {"type": "object", "properties": properties, "required": required})
        return {m["name"]: given[key] for key, m in names.items() if given.get(key) not in (None, "")} if given else {}


def _object(value, name):
    value = {} if value is None else _loads(convert.dumps(value, _MAX_DATA).decode())
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict of values by name, got {type(value).__name__}")
    return value
