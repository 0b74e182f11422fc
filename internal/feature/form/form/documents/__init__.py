"""Reads and fills in forms: the fields of a PDF, an HTML page, and a JSON Schema.

A document is untrusted. `process` reads it in a child process, so that one which takes too
much time or memory, or makes the interpreter fail, ends the child and not the code.
The child has the limits and the rights of the sandbox, and answers over a pipe.

Terms: a field has a name, unique in its form, and a label that a person reads. Fields that
repeat, such as the lines of a table, belong to a group and have a row. A problem is why a
value cannot be filled in; a form with problems is not written at all.

The library pypdf is a package of Sandpiper's own: code that imports pypdf gets the operator's.
"""

import json
import os
import select
import signal
import warnings

from . import filling
from .values import DocumentError

_CPU_SECONDS, _SECONDS = 10, 30
_MAX_ANSWER = 15 << 20  # bytes
_MALFORMED = "the document cannot be processed: it is malformed"
_NO_MEMORY = "the document takes too much memory to process; it is damaged, hostile, or too large"
_dumps, _loads = json.JSONEncoder(ensure_ascii=False).encode, json.JSONDecoder().decode


def process(request, data):
    """Return the answer to a request about a document, and the filled document or None."""
    if filling.is_pdf(data):
        from . import pdf  # here, so that the next child has it too
    r, w = os.pipe()
    try:
        pid = os.fork()
    except OSError:  # of the limit on processes
        os.close(r), os.close(w)
        raise
    if pid == 0:
        _serve(w, request, data)
    os.close(w)
    found = None
    try:
        found = _receive(r)
    finally:
        os.close(r)
        if found is None:
            os.kill(pid, signal.SIGKILL)
        status = _wait(pid)
    head, _, document = (found or b"").partition(b"\n")
    if found is None or status == signal.SIGPROF:
        return _failure("the document takes too much time to process; it is damaged or hostile"), None
    if status == signal.SIGKILL:
        return _failure(_NO_MEMORY), None
    if not head:
        return _failure(_MALFORMED), None
    return _loads(head.decode()), document or None


def _receive(r):
    """Return all that the child sends, or None if it takes too long. The clock is not read: a replay could read it more often."""
    poll, found = select.poll(), bytearray()
    poll.register(r, select.POLLIN)
    while poll.poll(_SECONDS * 1000):
        data = os.read(r, 1 << 20)
        if not data:
            return bytes(found)
        found += data
    return None


def _wait(pid):
    """Wait for the end of the child; return the signal that ended it, or 0."""
    try:
        return os.waitpid(pid, 0)[1] & 0x7F
    except ChildProcessError:  # the code has its own handler
        return 0


def _serve(w, request, data):
    """Answer in the child, and end it."""
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)
        warnings.simplefilter("ignore")
        answer, document = _answer(request, data)
        out = _dumps(answer).encode("utf-8", "replace") + b"\n" + (document or b"")
        if len(out) > _MAX_ANSWER:
            out = _dumps(_failure("the filled document is too large")).encode() + b"\n"
        while out:
            out = out[os.write(w, out) :]
    finally:
        os._exit(0)


def _answer(request, data):
    try:
        return filling.answer(request, data)
    except DocumentError as e:
        return {"error": e.problem}, None
    except MemoryError:
        return _failure(_NO_MEMORY), None
    except Exception:
        return _failure(_MALFORMED), None


def _failure(message):
    return {"error": {"problem": "broken", "message": message}}
