"""HTTP requests, which the daemon sends: `fetch`, and sockets of which it is the other end.

A request is a call of a tool of the server `network`, named like its method. HTTP libraries
write a request to a `Connection` and read the response from it, as from any other socket.
"""

import base64
import io
import json
import urllib.parse

from ... import plan
from ...errors import ToolError, note

_SERVER = "network"
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 10
_ONLY_HTTP = "only HTTP requests can be sent from here, without a proxy: use fetch(url)"
_REPEATABLE = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
_PRIVATE = {"authorization", "cookie"}  # not sent to another host after a redirect
_BODY = {"content-type", "content-length", "content-encoding"}
_CONNECTION = {"accept-encoding", "connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "transfer-encoding"}


class Headers(dict):
    """Headers by name, in any case. Several of one name are joined; `pairs` has each."""

    def __init__(self, pairs=()):
        super().__init__()
        self.pairs = [tuple(p) for p in pairs]
        for name, value in self.pairs:
            before = super().get(name.lower())
            super().__setitem__(name.lower(), value if before is None else f"{before}, {value}")

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class Response:
    """The response to a request: status, reason, ok, url, headers, content, text, json(), path.

    A body too large for memory is a file in the workspace: path is its path, otherwise None.
    """

    def __init__(self, answer, sent="GET", moved=False):
        self._sent, self._moved = sent, moved  # the method of the request, before redirects; whether there were any
        self.status, self.reason, self.url = answer["status"], answer.get("reason", ""), answer["url"]
        self.headers = Headers(answer["headers"])
        file = answer.get("file")
        self._path = file["path"] if file else None
        if "text" in answer:
            self._content = answer["text"].encode()
        else:
            parts = getattr(answer, "parts", ())
            self._content = parts[0].data if parts else None if file else b""
        self._unknown = None  # the error of a request that may have taken effect, which is noted although code may not raise it
        if sent not in _REPEATABLE and (self.status >= 500 or self.status in (408, 499)):
            self._unknown = self._error("unknown", False)

    path = property(lambda self: self._path)
    status_code = property(lambda self: self.status)
    ok = property(lambda self: self.status < 400)

    @property
    def content(self):
        """The body as bytes."""
        if self._content is None:
            with self.open() as f:
                return f.read()
        return self._content

    @property
    def text(self):
        """The body as text."""
        _, _, charset = self.headers.get("content-type", "").partition("charset=")
        try:
            return self.content.decode(charset.split(";")[0].strip(" \"'") or "utf-8", "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def json(self):
        """Return the decoded JSON of the body."""
        return json.loads(self.content)

    def open(self):
        """Return the body as a binary file, to read it in parts."""
        return open(self._path, "rb") if self._content is None else io.BytesIO(self._content)

    def raise_for_status(self):
        """Raise ToolError if the status is 400 or more."""
        if self.ok:
            return
        if self._unknown is not None:
            raise self._unknown
        repeatable = self._sent in _REPEATABLE
        unknown = not repeatable and self._moved
        raise self._error(
            "unknown" if unknown else "failed",
            not unknown and self.status == 429 or repeatable and (self.status >= 500 or self.status == 408),
        )

    def _error(self, outcome, retryable):
        later = self.headers.get("retry-after", "")
        return ToolError(
            f"{self.url} answered {self.status} {self.reason}", _SERVER, self._sent.lower(), None, outcome, retryable,
            self.status, float(later) if later.isdecimal() else None,
        )

    def __repr__(self):
        return f"<Response {self.status} {self.url}>"


Headers.__module__ = Response.__module__ = "builtins"


def fetch(servers, url, method, headers, json, data, timeout):
    """Send a request, follow its redirects, and return the response."""
    for what, value in (("url", url), ("method", method)):
        if not isinstance(value, str):
            raise TypeError(f"fetch(url, method, …): {what} must be text, got {type(value).__name__}")
    headers = {str(k): str(v) for k, v in dict(headers or {}).items()}
    body, kind = _body(json, data)
    if kind and not any(k.lower() == "content-type" for k in headers):
        headers["Content-Type"] = kind
    sent = method.upper()
    for hop in range(_MAX_REDIRECTS + 1):
        try:
            answer = _send(servers, method, url, headers, body, timeout)
        except ToolError as e:
            if hop and sent not in _REPEATABLE:  # the first request may have taken effect
                e.outcome, e.retryable = "unknown", False
                note(e)
            raise
        if type(answer) is plan.Placeholder:
            return answer
        r = Response(answer, sent, hop > 0)
        to = r.headers.get("location")
        if r.status not in _REDIRECTS or to is None:
            return r
        to = urllib.parse.urljoin(r.url, to)
        if method.upper() not in ("GET", "HEAD") and (r.status == 303 or r.status < 303 and method.upper() == "POST"):
            method, body, headers = "GET", {}, _without(headers, _BODY)
        if urllib.parse.urlsplit(to)[:2] != urllib.parse.urlsplit(r.url)[:2]:
            headers = _without(headers, _PRIVATE)
        url = to
    outcome = "failed" if sent in _REPEATABLE else "unknown"
    raise ToolError(f"the request was redirected more than {_MAX_REDIRECTS} times", _SERVER, method.lower(), outcome=outcome)


def _send(servers, method, url, headers, body, timeout):
    return servers.call(_SERVER, method.lower(), {"url": url, **body}, {"headers": headers or None, "timeout": timeout})


def _without(headers, names):
    return {k: v for k, v in headers.items() if k.lower() not in names}


def _body(json, data):
    """Return the body as arguments of the call, and its content type, or None."""
    if json is not None and data is not None:
        raise TypeError("fetch(…): json and data cannot be combined")
    if json is not None:
        return {"json": json}, None
    if data is None:
        return {}, None
    if hasattr(data, "read"):
        data = data.read()
    if isinstance(data, str):
        return {"text": data}, None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _raw(bytes(data)), None
    return {"text": urllib.parse.urlencode(data, doseq=True)}, "application/x-www-form-urlencoded"


def _raw(body):
    if not body:
        return {}
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def exchange(servers, method, url, pairs, body, timeout):
    """Send the request of a library, which follows redirects itself. Errors are OSErrors."""
    host, headers = urllib.parse.urlsplit(url).netloc, {}
    for name, value in pairs:
        if name.lower() in _CONNECTION or name.lower() == "host" and value == host:
            continue
        before = headers.get(name)
        headers[name] = value if before is None else before + ("; " if name.lower() == "cookie" else ", ") + value
    try:
        answer = _send(servers, method, url, headers, _raw(body), timeout or None)
    except ToolError as e:
        error = (TimeoutError if (e.data or {}).get("timeout") else ConnectionError)(str(e))
        error.outcome = e.outcome
        raise error from None
    return Response(answer, method.upper())


class Connection:
    """A connected socket: a request that is written to it is sent when it is complete, and its response can be read."""

    family, type, proto = 2, 1, 6

    def __init__(self, servers):
        self._servers = servers
        self._address = ("", 0)
        self._scheme = "http"
        self._timeout = None
        self._request = bytearray()
        self._size = None  # of the complete request, once its headers are written
        self._response = self._error = None  # files with the rest of the response

    def connect(self, address):
        self._address = address[:2]

    def connect_ex(self, address):
        self.connect(address)
        return 0

    def start_tls(self):
        """Send requests by https from now on."""
        self._scheme = "https"
        return self

    def sendall(self, data, flags=0):
        self._request += data
        if self._size is None and (end := self._request.find(b"\r\n\r\n")) >= 0:
            self._size = end + 4 + _length(self._request[:end])
        if self._size is not None and len(self._request) >= self._size:  # here, libraries expect that a host cannot be reached
            self._exchange()

    def send(self, data, flags=0):
        self.sendall(data)
        return len(data)

    def recv(self, size, flags=0):
        if self._request:
            self._exchange()
        if self._error is not None:  # httpcore reads after an error
            raise self._error
        if self._response is None:  # the other end would be the first to write
            raise ConnectionError(_ONLY_HTTP)
        while self._response:
            if data := self._response[0].read(size):
                return data
            self._response.pop(0).close()
        return b""

    def recv_into(self, buffer, size=0, flags=0):
        data = self.recv(size or len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def makefile(self, mode="r", buffering=None, **_):
        if "r" in mode:
            return io.BufferedReader(_Reader(self))
        raise OSError("a request is written with sendall")

    def settimeout(self, seconds):
        self._timeout = seconds

    def gettimeout(self):
        return self._timeout

    def setblocking(self, blocking):
        if not blocking:
            raise OSError("asynchronous connections are not available here: use httpx.AsyncClient, or await asyncio.to_thread(fetch, url)")

    def getpeername(self):
        return self._address

    def getsockname(self):
        return ("0.0.0.0", 0)

    def getpeercert(self, binary_form=False):
        return b"" if binary_form else {}

    def selected_alpn_protocol(self):
        return None

    def version(self):
        return None

    def fileno(self):
        return -1

    def bind(self, address):
        raise PermissionError("no connections are accepted here")

    def setsockopt(self, *_):
        pass

    def getsockopt(self, *_):
        return 0

    def shutdown(self, how):
        pass

    def close(self):
        """Close nothing: a file of makefile is read after this."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _exchange(self):
        request, self._size = bytes(self._request), None
        self._request.clear()
        try:
            self._response = self._answer(request)
        except OSError as e:
            self._error = e
            raise

    def _answer(self, request):
        method, target, pairs, body = _parse(request)
        host, port = self._address
        at = f"[{host}]" if ":" in host else host
        if port != {"http": 80, "https": 443}[self._scheme]:
            at += f":{port}"
        url = target if target.startswith(("http://", "https://")) else f"{self._scheme}://{at}{target}"
        r = exchange(self._servers, method, url, pairs, body, self._timeout)
        lines = [f"HTTP/1.1 {r.status} {r.reason}", "Connection: close"]
        lines += [f"{n}: {v}" for n, v in r.headers.pairs if n.lower() != "content-length" or method == "HEAD"]
        content = r.open()
        if method != "HEAD":
            lines.append(f"Content-Length: {content.seek(0, io.SEEK_END)}")
            content.seek(0)
        return [io.BytesIO("\r\n".join([*lines, "", ""]).encode("latin-1", "replace")), content]


class _Reader(io.RawIOBase):
    def __init__(self, connection):
        self._connection = connection

    def readable(self):
        return True

    def readinto(self, buffer):
        return self._connection.recv_into(buffer)


def _length(head):
    """Return the size of the body after the headers; infinity if they do not have it."""
    for line in bytes(head).lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name == b"transfer-encoding":
            return float("inf")  # it ends when the response is read
        if name == b"content-length":
            return int(value)
    return 0


def _parse(request):
    """Return method, target, headers and body of a request."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or words[0] == "CONNECT":
        raise ConnectionError(_ONLY_HTTP)
    pairs = []
    for line in lines:
        name, _, value = line.partition(":")
        pairs.append((name, value.strip()))
    if any(n.lower() == "transfer-encoding" for n, _ in pairs):
        body = _join_chunks(body)
    return words[0], words[1], pairs, body


def _join_chunks(body):
    chunks = []
    while body:
        size, _, body = body.partition(b"\r\n")
        n = int(size.partition(b";")[0], 16)
        if n == 0:
            break
        chunks.append(body[:n])
        body = body[n + 2 :]
    return b"".join(chunks)


async def send_httpx(servers, module, request):
    """Send a request of the asynchronous transport of httpx, which is in module, in a thread."""
    body = await request.aread()
    timeout = request.extensions.get("timeout", {}).get("read")
    try:
        r = await servers.in_thread(exchange, servers, request.method, str(request.url), request.headers.multi_items(), body, timeout)
    except TimeoutError as e:
        raise module.ReadTimeout(str(e), request=request) from None
    except OSError as e:
        raise module.ConnectError(str(e), request=request) from None
    return module.Response(r.status, headers=r.headers.pairs, content=r.content, request=request)
