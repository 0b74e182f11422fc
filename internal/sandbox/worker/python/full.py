"""Deletes and truncates files of a full workspace.

A workspace over its quota is mounted read-only, and the kernel then refuses to
delete as well as to write. The functions of os below try the kernel first; if
it refuses for that reason, they ask the daemon, which deletes the entry or
shortens the file. pathlib, shutil and tempfile call them, too.
"""

import errno
import functools
import os
import stat

from .files import MOUNTS


def install(files, channel):
    """Replace os.remove, os.unlink, os.rmdir and os.truncate."""
    for name in ("remove", "unlink", "rmdir"):
        _replace(name, _deleting(getattr(os, name), files, channel))
    _replace("truncate", _truncating(os.truncate, files, channel))


def _replace(name, function):
    original = getattr(os, name)
    for supports in (os.supports_dir_fd, os.supports_fd):
        if original in supports:
            supports.add(function)
    setattr(os, name, function)


def _deleting(original, files, channel):
    directory = original.__name__ == "rmdir"

    @functools.wraps(original)
    def delete(path, *, dir_fd=None):
        try:
            return original(path, dir_fd=dir_fd)
        except OSError as e:
            name = _name(e, files, path, dir_fd)
            if name is None:
                raise
            at = os.path.join(files.root, name)
            if stat.S_ISDIR(os.lstat(at).st_mode) != directory:  # the kernel's other errors come after this one
                kind = NotADirectoryError if directory else IsADirectoryError
                code = errno.ENOTDIR if directory else errno.EISDIR
                raise kind(code, os.strerror(code), path) from None
            if directory and os.listdir(at):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path) from None
            _ask(channel, e, "delete_file", {"name": name})

    return delete


def _truncating(original, files, channel):
    @functools.wraps(original)
    def truncate(path, length):
        try:
            return original(path, length)
        except OSError as e:
            name = None if isinstance(path, int) else _name(e, files, os.path.realpath(path), None)
            if name is None or length > os.stat(path).st_size:
                raise
            _ask(channel, e, "truncate_file", {"name": name, "size": length})

    return truncate


def _name(e, files, path, dir_fd):
    """Return the name in the workspace of a path that the kernel refuses to change; None if it is another error."""
    if e.errno != errno.EROFS or files.dry is not None:
        return None
    path = os.fsdecode(path)
    if dir_fd is not None:
        path = os.path.join(_directory(files.root, dir_fd), path)
    folder, last = os.path.split(path)
    path = os.path.join(os.path.realpath(folder), last)
    name = os.path.relpath(path, files.root) if path.startswith(files.root + "/") else ""
    return name if name and name.partition("/")[0] not in MOUNTS else None


def _directory(root, fd):
    """Return the path of an open directory below root; "/" if it is elsewhere. There is no /proc to look it up in."""
    top, names = os.stat(root), []
    fd = os.dup(fd)
    try:
        while not os.path.samestat(here := os.fstat(fd), top):
            parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = parent
            with os.scandir(fd) as entries:
                name = next((e.name for e in entries if e.inode() == here.st_ino), None)
            if name is None or os.path.samestat(here, os.fstat(fd)):
                return "/"
            names.append(name)
    finally:
        os.close(fd)
    return os.path.join(root, *reversed(names))


def _ask(channel, refused, method, args):
    try:
        channel.call(method, args)
    except Exception as e:
        refused.add_note(f"the workspace is full and read-only; {method}: {e}")
        raise refused from None
