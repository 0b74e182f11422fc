"""What the clients share."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from . import _operations as ops
from . import _run_operations as runs
from . import _wire
from ._areas import Files, Forms, Privacy, Schedules, Skills, States, Tools, Workflows
from ._errors import RequestError, RequestTimeout, ServerUnavailable
from ._http import HTTP
from ._method import Area, Method, Mode
from ._stdio import Stdio, find_binary


_clients: weakref.WeakSet[Client[Any]] = weakref.WeakSet()
_of_parents: list[_wire.Connection] = []  # kept, since their files may be locked by threads that do not exist in this process


class Client(Area[Mode]):
    """What both clients share: the methods, and the connection, which the first request opens."""

    execute = Method(ops.execute)
    resume = Method(ops.resume)
    waiting = Method(ops.waiting)
    task = Method(ops.task)
    call = Method(ops.call)
    list_background = Method(runs.list_background)
    stats = Method(ops.stats)

    def __init__(
        self,
        *,
        binary: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        url: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        customer_uid: str | None = None,
        profile: str | None = None,
        timeout: float | None = 600,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the server; nothing is started yet.

        Without url, a server is started for this client:
          binary    the program; default: $SANDPIPER, or sandpiper in $PATH
          config    its configuration file, instead of your own and the project's
          data_dir  its data directory
          tenant    the customer whose data it uses; default: local. customer_uid is another name
          profile   the tools that it offers; default: full
          env       variables, in addition to those of this process
        With url, such as https://mcp.example.com/mcp, the client connects to a server:
          token     its bearer token, which identifies the customer
          profile   default: that of the server
        timeout is the number of seconds to wait for an answer, in addition to the
        timeout_seconds of an execution; None waits without a limit.
        """
        if tenant is not None and customer_uid is not None and tenant != customer_uid:
            raise ValueError(f"tenant is {tenant!r} and customer_uid is {customer_uid!r}; they are one setting, so leave one out")
        tenant = customer_uid if tenant is None else tenant
        if tenant == "":
            raise ValueError("tenant is empty; leave it out for the tenant local")
        self._timeout, self._url, self._token, self._profile = timeout, url, token, profile
        if url is not None:
            for name, value in (("binary", binary), ("config", config), ("data_dir", data_dir), ("tenant", tenant), ("env", env)):
                if value is not None:
                    why = "the token identifies the tenant" if name == "tenant" else f"{name} is for a server that is started"
                    raise ValueError(f"{name} cannot be combined with url: {why}")
            self._make: HTTP | None = HTTP(url, token, profile)
        else:
            self._make = None
            if token is not None:
                raise ValueError("token requires url")
        self._argv: list[str] = []
        self._env: dict[str, str] = {}
        if url is None:
            self._argv = [find_binary(binary), *(["--config", os.fspath(config)] if config is not None else [])]
            self._env = {**os.environ, **(env or {})}
            if data_dir is not None:
                self._env["SANDPIPER_DATA_DIR"] = os.path.abspath(data_dir)
        self._serve = ["serve", "--profile", profile or "full", *([f"--tenant={tenant}"] if tenant is not None else [])]
        self._opening = threading.Lock()
        self._connection: _wire.Connection | None = None
        self._closed = False
        _clients.add(self)

    @property
    def files(self) -> Files[Mode]:
        """The workspace, /workspace in code."""
        return Files(self._do)

    @property
    def skills(self) -> Skills[Mode]:
        """Saved Python that code imports with from skills import NAME."""
        return Skills(self._do)

    @property
    def state(self) -> States[Mode]:
        """Small JSON values, get_state and save_state in code."""
        return States(self._do)

    @property
    def tools(self) -> Tools[Mode]:
        """The tools of connected MCP servers."""
        return Tools(self._do)

    @property
    def workflows(self) -> Workflows[Mode]:
        """Saved workflows."""
        return Workflows(self._do)

    @property
    def schedules(self) -> Schedules[Mode]:
        """Skills and workflows that run at times."""
        return Schedules(self._do)

    @property
    def forms(self) -> Forms[Mode]:
        """Forms in the workspace."""
        return Forms(self._do)

    @property
    def privacy(self) -> Privacy[Mode]:
        """Tokens for personal data in texts."""
        return Privacy(self._do)

    def _connect(self) -> _wire.Connection:
        with self._opening:
            if self._closed:
                raise ServerUnavailable("this client was closed")
            if self._connection is None:
                self._connection = self._make or Stdio([*self._argv, *self._serve], self._env)
            return self._connection

    def _close(self) -> None:
        with self._opening:
            connection, self._connection, self._closed = self._connection, None, True
        if connection is not None:
            connection.close()

    def _fork(self) -> None:
        """Make a client that was copied to a child process independent of its parent's."""
        self._opening = threading.Lock()
        if self._connection is not None:
            self._connection.leave()
            _of_parents.append(self._connection)
            self._connection = None

    def _submit(self, call: ops.Call) -> Future[_wire.Message]:
        return self._connect().submit("tools/call", {"name": call.tool, "arguments": call.arguments})

    def _limit(self, call: ops.Call) -> float | None:
        return None if self._timeout is None else self._timeout + call.seconds

    def _late(self, call: ops.Call) -> RequestTimeout:
        return RequestTimeout(f"{call.tool} was not answered within {self._limit(call):g} seconds and was cancelled", "raise timeout=")


def read(call: ops.Call, result: _wire.Message) -> ops.Answer:
    answer, failed = _wire.answer(result)
    # Failed code has an id or a type; a refused request has neither.
    if failed and not (call.executes and ("execution_id" in answer or "error_type" in answer or "tools" in answer)):
        raise RequestError(str(answer.get("error", "the request was refused")), str(answer.get("hint", "")))
    return answer


def _forked() -> None:
    for client in list(_clients):
        client._fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
