"""Adds hints to exceptions about features that a sandbox does not have.

A sandbox has no network and no program but Python. The kernel denies both. The
wrappers here change only the message of the exception: its type, errno and file
name stay, and successful calls are unaffected.
"""

import errno
import os

NETWORK = "no network here: use a tool of a server (search_tools finds one)"
LOCAL = "no sockets between processes here: use multiprocessing.Queue or Pipe, or socket.socketpair"
PROGRAMS = "programs other than Python cannot be started here: write it in Python, or use a tool of a server"

_SHELL = "/bin/sh"
_MISSING = (errno.ENOENT, errno.EACCES, errno.EPERM)


def install():
    """Wrap the functions of module os that fail in a sandbox."""
    _wrap_system()


def wrap_socket(socket):
    """Wrap the functions of module socket, which fail."""
    _wrap_init(socket)
    _wrap_lookup(socket)


def _wrap_init(socket):
    init = socket.socket.__init__

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        try:
            init(self, family, type, proto, fileno)
        except OSError as e:
            if fileno is None and e.errno in (errno.EPERM, errno.EACCES):
                e.strerror = LOCAL if family == socket.AF_UNIX else NETWORK
            raise

    socket.socket.__init__ = __init__


def _wrap_lookup(socket):
    getaddrinfo = socket.getaddrinfo

    def lookup(host, port, family=0, type=0, proto=0, flags=0):
        try:
            return getaddrinfo(host, port, family, type, proto, flags)
        except socket.gaierror as e:
            e.strerror = NETWORK
            raise

    lookup.__name__ = lookup.__qualname__ = "getaddrinfo"
    lookup.__doc__ = getaddrinfo.__doc__
    socket.getaddrinfo = lookup


def wrap_popen(subprocess):
    """Wrap the function of module subprocess that starts programs."""
    execute = subprocess.Popen._execute_child

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, *rest):
        try:
            execute(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, *rest)
        except OSError as e:
            if e.errno in _MISSING and (cwd is None or e.filename != cwd):
                e.strerror = PROGRAMS
            raise

    subprocess.Popen._execute_child = _execute_child


def _wrap_system():
    run = os.system

    def system(command):
        """Execute the command in a subshell, if there is a shell."""
        if not os.path.exists(_SHELL):  # os.system would only return a number
            raise FileNotFoundError(errno.ENOENT, PROGRAMS, _SHELL)
        return run(command)

    os.system = system
