"""Says what a sandbox does not have where Python would only name an error.

There is no network and no program but Python. The kernel refuses both; what is
here changes the words of the exception and nothing else: types, numbers and file
names stay, and what works goes on working.
"""

import errno
import os
import socket
import subprocess

NETWORK = "no network here: use a tool of a server (search_tools finds one)"
PROGRAMS = "programs other than Python cannot be started here: write it in Python, or use a tool of a server"

_SHELL = "/bin/sh"
_MISSING = (errno.ENOENT, errno.EACCES, errno.EPERM)


def install():
    """Have the functions of the standard library say so."""
    _wrap_socket()
    _wrap_lookup()
    _wrap_popen()
    _wrap_system()


def _wrap_socket():
    init = socket.socket.__init__

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        try:
            init(self, family, type, proto, fileno)
        except OSError as e:
            if fileno is None and e.errno in (errno.EPERM, errno.EACCES):
                e.strerror = NETWORK
            raise

    socket.socket.__init__ = __init__


def _wrap_lookup():
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


def _wrap_popen():
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
        """Execute the command in a subshell, where there is a shell."""
        if not os.path.exists(_SHELL):  # the number that it would return says nothing
            raise FileNotFoundError(errno.ENOENT, PROGRAMS, _SHELL)
        return run(command)

    os.system = system
