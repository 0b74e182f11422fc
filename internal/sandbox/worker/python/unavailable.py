"""Adds hints to exceptions about features that a sandbox does not have.

A sandbox has no network and no program but Python. The kernel denies both. The
wrappers here change only the message of the exception: its type, errno and file
name stay, and successful calls are unaffected. Shared memory without a file, which the
filter of a worker without a cgroup denies, is replaced.
"""

import errno
import mmap
import os

NETWORK = "no network here: use a tool of a server (search_tools finds one)"
LOCAL = "no sockets between processes here: use multiprocessing.Queue or Pipe, or socket.socketpair"
PROGRAMS = "programs other than Python cannot be started here: write it in Python, or use a tool of a server"

requests = None  # sends HTTP requests, if they are allowed; see package features

_SHELL = "/bin/sh"
_MISSING = (errno.ENOENT, errno.EACCES, errno.EPERM)


def install():
    """Wrap what fails in a sandbox of modules os and mmap."""
    _wrap_system()
    mmap.mmap = _Map


def wrap_socket(socket):
    """Wrap the functions of module socket, which fail unless HTTP requests are allowed."""
    _wrap_new(socket)
    _wrap_init(socket)
    _wrap_lookup(socket)


def _wrap_new(socket):
    new = socket.socket.__new__

    def __new__(cls, family=-1, type=-1, proto=-1, fileno=None):
        stream = type == -1 or type & 0xF == socket.SOCK_STREAM
        if requests is None or cls is not socket.socket or fileno is not None or family not in (-1, socket.AF_INET, socket.AF_INET6) or not stream:
            return new(cls)
        return requests.connect()

    socket.socket.__new__ = __new__


def wrap_ssl(ssl):
    """Make the daemon, not the module, encrypt connections for HTTP requests."""
    wrap = ssl.SSLContext.wrap_socket

    def wrap_socket(self, sock, *args, **options):
        return sock.start_tls() if hasattr(sock, "start_tls") else wrap(self, sock, *args, **options)

    ssl.SSLContext.wrap_socket = wrap_socket


def wrap_httpx(module):
    """Make the asynchronous transport of httpx work if HTTP requests are allowed."""
    send = module.AsyncHTTPTransport.handle_async_request

    async def handle_async_request(self, request):
        if requests is None:
            return await send(self, request)
        return await requests.send_httpx(module, request)

    module.AsyncHTTPTransport.handle_async_request = handle_async_request


def _wrap_init(socket):
    init = socket.socket.__init__

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        try:
            init(self, family, type, proto, fileno)
        except OSError as e:
            if fileno is None and e.errno in (errno.EPERM, errno.EACCES):
                e.strerror = LOCAL if family == socket.AF_UNIX else NETWORK if requests is None else requests.hint
            raise

    socket.socket.__init__ = __init__


def _wrap_lookup(socket):
    getaddrinfo = socket.getaddrinfo

    def lookup(host, port, family=0, type=0, proto=0, flags=0):
        if requests is not None and host and str(port or 0).isdigit():  # the daemon resolves the name
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host if isinstance(host, str) else host.decode(), int(port or 0)))]
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


class _Map(mmap.mmap):
    """Uses a file in /dev/shm where the kernel denies shared memory without one, or private memory to execute."""

    def __new__(cls, fileno, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE, *args, **options):
        try:
            return super().__new__(cls, fileno, length, flags, prot, *args, **options)
        except PermissionError:
            if fileno != -1 or not flags & mmap.MAP_SHARED:
                raise
        if prot & mmap.PROT_EXEC:
            return super().__new__(cls, -1, length, flags & ~mmap.MAP_SHARED | mmap.MAP_PRIVATE, prot, *args, **options)
        name = f"/dev/shm/{os.urandom(16).hex()}"
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.unlink(name)
            os.truncate(fd, length)
            return super().__new__(cls, fd, length, flags & ~mmap.MAP_ANONYMOUS, prot, *args, **options)
        finally:
            os.close(fd)


_Map.__name__ = _Map.__qualname__ = "mmap"
_Map.__module__ = "mmap"
