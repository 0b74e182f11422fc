"""Converts code in the style of notebooks and chats: in ``` fences, and with commands of IPython.

It is imported only for code with a syntax error. Removed lines stay as empty ones, so that
line numbers are those of the source.
"""

import importlib.util
import re

_FENCE = re.compile(r"\s*(```|~~~)")
_INSTALL = re.compile(r"[!%]?\s*(?:python3? -m |uv |sudo )*(?:pip3?|conda|mamba|poetry|uv) (?:install|add)\b(.*)")
_COMMAND = re.compile(r"([!%]{1,2})\s*([A-Za-z_]\w*)?")
_IGNORED = {
    "matplotlib": "plt.show(), or a figure as the last expression, returns a picture",
    "config": "there is nothing to configure",
    "load_ext": "extensions of IPython are not available",
    "autoreload": "each execution imports modules again",
    "pylab": "import matplotlib.pyplot and numpy",
}
_CELL = {"time": "each answer has execution_time_ms", "capture": "print less instead"}
_INSTEAD = {
    "time": "use time.perf_counter()",
    "timeit": "use timeit.timeit(f, number=10)",
    "cd": "use os.chdir()",
    "pwd": "use os.getcwd()",
    "ls": "use list_files()",
    "cat": "use read_file(name)",
    "run": "use import, or exec(read_file(name))",
    "env": "the environment of the host is not visible; pass values as context_vars",
}
_MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "beautifulsoup4": "bs4", "opencv-python": "cv2", "pyyaml": "yaml", "python-dateutil": "dateutil"}


def converted(source, error):
    """Return source without what caused the SyntaxError, and a note; None if it is an ordinary error.

    It raises SyntaxError with the alternative for a command that cannot be omitted.
    """
    lines = source.split("\n")
    if _FENCE.match(source):
        return "\n".join(_inside_fences(lines)), ""
    if not error.lineno or error.lineno > len(lines):
        return None
    i = error.lineno - 1
    text = lines[i].strip()
    note = _install(text) or _command(text)
    if note is None:
        return None
    lines[i] = lines[i][: len(lines[i]) - len(lines[i].lstrip())] + "pass"
    return "\n".join(lines), f"{text[:60]}: {note}"


def _inside_fences(lines):
    inside = False
    for line in lines:
        fence = _FENCE.match(line)
        yield line if inside and not fence else ""
        inside ^= bool(fence)


def _install(text):
    match = _INSTALL.match(text)
    if match is None:
        return None
    names = [re.split(r"[\[=<>~!;@]", word)[0] for word in match[1].split() if not word.startswith("-")]
    missing = [n for n in names if not _installed(n.strip("'\""))]
    if names and not missing:
        return "already installed"
    raise SyntaxError(
        "code cannot install packages: use the standard library, or ask the operator to run `sandpiper packages add %s`"
        % (" ".join(missing) or "NAME")
    ) from None


def _installed(name):
    module = _MODULES.get(name.lower(), name.replace("-", "_"))
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _command(text):
    match = _COMMAND.match(text)
    if match is None:
        return None
    sign, name = match.groups()
    ignored = _CELL if sign == "%%" else _IGNORED
    if sign[0] == "%" and name in ignored:
        return "not needed: " + ignored[name]
    instead = _INSTEAD.get(name, "write it in Python, or use a tool of a server" if sign[0] == "!" else "write it in Python")
    what = "there is no shell here" if sign[0] == "!" else f"{sign}{name or ''} is a command of IPython, which is not available"
    raise SyntaxError(f"{what}: {instead}") from None
