"""The output streams of code: print, sys.stdout, sys.stderr, and an empty sys.stdin.

One print call is one item of output. Other text written to sys.stdout is split
into lines; an unfinished line is buffered until its end, the next print or the
end of the execution. Nothing else is buffered.
"""

import builtins
import codecs
import io
import sys

_print = builtins.print


class Stream(io.TextIOBase):
    """A text stream whose items are sent as frames of kind O or E."""

    encoding, errors, newlines, mode = "utf-8", "backslashreplace", None, "w"
    line_buffering, write_through = True, False

    def __init__(self, channel, kind, fd, name):
        self._channel, self._kind, self._fd, self.name = channel, kind, fd, name
        self._lines = kind == b"O"
        self._open = ""  # the unfinished line
        self.buffer = _Binary(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not self._lines:
            if text:
                self._channel.text(self._kind, (text,))
        elif "\n" in text:
            *whole, self._open = (self._open + text).split("\n")
            self._channel.text(self._kind, whole)
        else:
            self._open += text
            if len(self._open) > 1 << 20:
                self.finish_line()
        return len(text)

    def item(self, text):
        """Write the text of one print call."""
        if not self._lines:
            self._channel.text(self._kind, (text,))
            return
        if text.endswith("\n"):
            text = text[:-1]
        if self._open:
            self.finish_line()
        self._channel.text(self._kind, (text,))

    def finish_line(self):
        """Send the unfinished line."""
        if self._open:
            text, self._open = self._open, ""
            self._channel.text(self._kind, (text,))

    def forget(self):
        self._open = ""

    def writable(self):
        return True

    def fileno(self):
        return self._fd  # for child processes: the daemon reads it too

    def flush(self):
        pass

    def close(self):
        pass  # code that closes sys.stdout may still print

    def reconfigure(self, **_):
        pass


class _Binary(io.BufferedIOBase):
    """sys.stdout.buffer: decodes bytes as UTF-8."""

    def __init__(self, stream):
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = self

    def write(self, data):
        data = bytes(data)
        self._stream.write(self._decoder.decode(data))
        return len(data)

    def writable(self):
        return True

    def fileno(self):
        return self._stream.fileno()

    def close(self):
        pass


def install(stdout, stderr):
    """Make stdout and stderr the streams of this process."""
    sys.stdout = sys.__stdout__ = stdout
    sys.stderr = sys.__stderr__ = stderr
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    builtins.print = printer(stdout, stderr)
    builtins.input = _input


def printer(stdout, stderr):
    """Return a print that writes the text of each call as one item."""
    ours = (stdout, stderr)

    def print(*values, sep=" ", end="\n", file=None, flush=False):
        if file is None:
            file = sys.stdout
        if file not in ours:
            return _print(*values, sep=sep, end=end, file=file, flush=flush)
        sep = " " if sep is None else sep
        end = "\n" if end is None else end
        if not isinstance(sep, str) or not isinstance(end, str):
            raise TypeError("sep and end must be None or a string")
        file.item(sep.join(map(str, values)) + end)

    print.__doc__ = _print.__doc__
    print.__module__, print.__qualname__ = "builtins", "print"
    return print


def _input(prompt="", /):
    raise EOFError("input() is not available: pass values as context_vars")


_input.__name__ = _input.__qualname__ = "input"
