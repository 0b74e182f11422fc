"""Helpers for the files of the workspace, by paths relative to it.

They reject paths outside the workspace to report mistakes. They are a convenience,
not a security boundary: the kernel enforces that.
"""

import io
import os
import stat

_open, _urandom = io.open, os.urandom
MOUNTS = ("servers", "sessions", "skills")
_UNLISTED = (*MOUNTS, ".results")  # listed only on request
INDEX = ".tools"  # of the package of a server: not listed, it is no module


class Files:
    def __init__(self, workspace):
        self.workspace = workspace
        self.root = os.path.realpath(workspace)
        self.dry = None  # in a dry run: path -> bytes, or None if deleted

    def read_file(self, filename, binary=False):
        """Return the text of a file in the workspace, or its bytes."""
        path = self._inside(filename)
        data = _read(path, filename) if self.dry is None else self._dry_read(path, filename)
        if binary:
            return data
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as e:
            raise ValueError(
                f"{filename} is not UTF-8 text (byte {e.start}): use read_file({filename!r}, binary=True)"
            ) from None

    def write_file(self, filename, content):
        """Write text or bytes to a file in the workspace, atomically."""
        data = _bytes(content)
        path = self._inside(filename)
        if os.path.isdir(path):
            raise IsADirectoryError(f"{filename} is a directory: name a file")
        if self.dry is not None:
            self.dry[path] = data
            return f"Written {len(data)} bytes to {filename}"
        folder, name = os.path.split(path)
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f".{name[:40]}.{os.getpid():x}{_urandom(4).hex()}")
        try:
            with _open(temporary, "xb") as f:
                f.write(data)
            os.replace(temporary, path)
        except BaseException:
            _unlink_if_exists(temporary)
            raise
        return f"Written {len(data)} bytes to {filename}"

    def list_files(self, path="."):
        """Return the files under path, relative to the workspace, sorted; none if path does not exist."""
        start = self._inside(path)
        dry = {p: data for p, data in (self.dry or {}).items() if p == start or p.startswith(start.rstrip("/") + "/")}
        found = self._found(start) - dry.keys() | {p for p, data in dry.items() if data is not None}
        return sorted(os.path.relpath(p, self.root) for p in found)

    def _found(self, start):
        if os.path.exists(start) and not os.path.isdir(start):
            return {start}
        found = set()
        for folder, names, files in os.walk(start):
            if folder == self.root:
                names[:] = [n for n in names if n not in _UNLISTED]
            found.update(p for f in files if _regular(p := os.path.join(folder, f)) and (f != INDEX or os.path.dirname(folder) != self.root + "/servers"))
        return found

    def delete_file(self, filename):
        """Delete a file or an empty directory of the workspace."""
        folder, name = os.path.split(self._plain(filename))
        path = os.path.join(self._inside(folder or "."), name)  # a link is deleted, not its target
        if self.dry is not None and self.dry.get(path) is not None:
            self.dry[path] = None
            return f"Deleted {filename}"
        if not os.path.lexists(path) or self.dry is not None and path in self.dry:
            raise FileNotFoundError(f"File not found: {filename}")
        directory = os.path.isdir(path) and not os.path.islink(path)
        if directory and (self.dry is not None or os.listdir(path)):
            raise IsADirectoryError(f"{filename} is a directory: delete_file deletes files and empty directories, and in a dry run only files")
        if self.dry is not None:
            self.dry[path] = None
        else:
            (os.rmdir if directory else os.unlink)(path)
        return f"Deleted {filename}"

    def _dry_read(self, path, filename):
        if path not in self.dry:
            return _read(path, filename)
        if (data := self.dry[path]) is None:
            raise FileNotFoundError(f"File not found: {filename}")
        return data

    def _plain(self, filename):
        filename = os.fspath(filename)
        if not isinstance(filename, str):
            raise TypeError(f"a file name is a str, got {type(filename).__name__}")
        if not filename or "\0" in filename:
            raise ValueError(f"{filename!r} is not a file name: use a path relative to the workspace")
        return filename

    def _inside(self, filename):
        """Return the real path of filename; raise PermissionError if it is outside the workspace."""
        path = os.path.realpath(os.path.join(self.root, self._plain(filename)))
        if path != self.root and not path.startswith(self.root + "/"):
            raise PermissionError(f"Access denied: path outside workspace: {filename!r}")
        return path


def _read(path, filename):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise FileNotFoundError(f"File not found: {filename}") from None
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{filename} is a directory: use list_files({filename!r})")
        if not stat.S_ISREG(mode):
            raise ValueError(f"{filename} is not a regular file")
        with _open(fd, "rb", closefd=False) as f:
            return f.read()
    finally:
        os.close(fd)


def _bytes(content):
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise TypeError(
        f"write_file takes str or bytes, got {type(content).__name__}: use json.dumps(content) or str(content)"
    )


def _regular(path):
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _unlink_if_exists(path):
    try:
        os.unlink(path)
    except OSError:
        pass
