"""Forms: the global forms of code.

The package documents reads and writes documents; pypdf is a library that it uses.
"""

from .forms import Forms

SETTLED = ("documents.pdf",)


def names(interpreter):
    return {"forms": Forms(interpreter.channel, interpreter.files, lambda: interpreter.ready.get("get_state"), interpreter.ask)}
