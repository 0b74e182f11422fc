"""A connection to a server at a URL, over streamable HTTP. Each request has a connection of its own."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from . import _wire
from ._errors import AccessDenied, RequestError, SandpiperError, ServerUnavailable


class HTTP:
    """A server at a URL. Redirects are not followed, so that the token goes nowhere else."""

    def __init__(self, url: str, token: str | None, profile: str | None, connect_timeout: float = 10) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url is {url!r}; it must be like http://127.0.0.1:8765/mcp")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        query = "&".join(filter(None, (parts.query, urlencode({"profile": profile}) if profile else "")))
        self._path = (parts.path or "/mcp") + (f"?{query}" if query else "")
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": _wire.REVISION,
        }
        if token is not None:
            if not token.isascii() or not token.isprintable() or " " in token or not token:
                raise ValueError("the token is empty or has characters that a header cannot contain")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = connect_timeout
        self._open: set[_Exchange] | None = None  # None once closed
        self.leave()

    def submit(self, method: str, params: Mapping[str, Any]) -> Future[_wire.Message]:
        future: Future[_wire.Message] = Future()
        body = json.dumps(_wire.request(1, method, params), allow_nan=False).encode()
        headers = {**self._headers, "Mcp-Method": method}
        if isinstance(params.get("name"), str):
            headers["Mcp-Name"] = params["name"]
        exchange = _Exchange(self._connection())
        with self._lock:
            closed = self._open is None
            if self._open is not None:
                self._open.add(exchange)
        if closed:
            future.set_exception(ServerUnavailable("the connection was closed"))
            return future
        # A client that disconnects cancels its request.
        future.add_done_callback(lambda f: exchange.abort() if f.cancelled() else None)
        threading.Thread(target=self._run, args=(future, exchange, body, headers), daemon=True).start()
        return future

    def close(self) -> None:
        with self._lock:
            running, self._open = self._open, None
        for exchange in running or ():
            exchange.abort()

    def leave(self) -> None:
        self._lock, self._open = threading.Lock(), set()

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout)

    def _run(self, future: Future[_wire.Message], exchange: _Exchange, body: bytes, headers: dict[str, str]) -> None:
        error: Exception | None = None
        value: _wire.Message = {}
        try:
            value = self._exchange(exchange, body, headers)
        except SandpiperError as e:
            error = e
        except (OSError, http.client.HTTPException) as e:
            error = self._unavailable("the connection was closed" if exchange.aborted else str(e) or type(e).__name__)
        except Exception as e:  # never leave the caller waiting
            error = e
        finally:
            with self._lock:
                if self._open is not None:
                    self._open.discard(exchange)
            exchange.connection.close()
        with suppress(InvalidStateError):
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

    def _exchange(self, exchange: _Exchange, body: bytes, headers: dict[str, str]) -> _wire.Message:
        connection = exchange.connection
        connection.connect()
        if exchange.aborted:
            raise ConnectionAbortedError
        if isinstance(connection.sock, socket.socket):
            connection.sock.settimeout(None)  # the caller has a timeout of its own
        connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        kind = response.headers.get_content_type()
        if response.status == 200 and kind == "text/event-stream":
            for message in _events(response):
                if isinstance(message, dict) and "id" in message and "method" not in message:
                    return _wire.result(message)
            raise self._unavailable("the stream ended without a response")
        data = response.read()
        try:
            message = json.loads(data) if kind == "application/json" else None
        except ValueError:
            message = None
        if isinstance(message, dict) and (response.status == 200 or response.status == 400 and "error" in message):
            return _wire.result(message)
        raise self._refused(response, message, data[:500].decode(errors="replace").strip())

    def _refused(self, response: http.client.HTTPResponse, message: Any, text: str) -> Exception:
        if isinstance(message, dict) and isinstance(message.get("error"), dict):
            text = str(message["error"].get("message", text))
        text = f"{self._where} answered {response.status}: {text or response.reason}"
        if response.status in (401, 403):
            return AccessDenied(text, "check the token: it must be one of http.tokens, an API key, or a token of the OpenID provider of the server")
        if response.status in (429, 503):
            after = response.headers.get("Retry-After")
            return ServerUnavailable(text, f"try again after {after} seconds" if after else "try again later")
        if response.status == 404:
            return ServerUnavailable(text, "the URL of a server ends with /mcp")
        if response.status == 400:
            return RequestError(text)
        return ServerUnavailable(text)

    def _unavailable(self, reason: str) -> ServerUnavailable:
        return ServerUnavailable(f"{self._where}{self._path.partition('?')[0]}: {reason}", "check that the server runs: sandpiper serve --http HOST:PORT")


class _Exchange:
    """A request and its connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True
        with suppress(OSError, AttributeError):  # not connected yet, or not any more
            self.connection.sock.shutdown(socket.SHUT_RDWR)


def _events(response: http.client.HTTPResponse) -> Iterator[Any]:
    data: list[bytes] = []
    while line := response.readline():
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            text, data = b"\n".join(data), []
            with suppress(ValueError):  # such as an event without data
                yield json.loads(text)
