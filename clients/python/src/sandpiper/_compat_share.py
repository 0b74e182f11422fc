"""The servers that objects of sandpiper.compat share."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, TypeVar

from ._client import Sandpiper
from ._compat_config import ExecutionConfig
from ._errors import ServerUnavailable

Self = TypeVar("Self", bound="Sharing")

_clients: weakref.WeakValueDictionary[Any, _Shared] = weakref.WeakValueDictionary()
_lock = threading.Lock()  # of _clients and of the users of each


class _Shared(Sandpiper):
    """The client of a workspace."""

    users: weakref.WeakSet[Sharing]


class Sharing:
    """An object that uses the server of a workspace. The last one that is closed or collected ends it."""

    def _share(self, config: ExecutionConfig) -> None:
        key, make = _describe(config)
        with _lock:
            client = _clients.get(key)
            if client is None:
                client = _clients[key] = _Shared(**make)
                client.users = weakref.WeakSet()
            client.users.add(self)
        self._key, self._client = key, client
        self._closed = False

    @property
    def client(self) -> Sandpiper:
        """The client, which other objects of the workspace use too."""
        if self._closed:
            raise ServerUnavailable(f"this {type(self).__name__} was closed")
        return self._client

    def close(self) -> None:
        """End the use of the server. It ends with the last object of the workspace; its requests in flight fail."""
        self._closed = True
        with _lock:
            self._client.users.discard(self)
            if self._client.users:
                return
            if _clients.get(self._key) is self._client:
                del _clients[self._key]
        self._client.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _describe(config: ExecutionConfig) -> tuple[Any, dict[str, Any]]:
    """Return the key and the options of the client of a workspace. Different directories never share one."""
    if ".." in PurePosixPath(str(config.workspace_dir).replace("\\", "/")).parts:
        raise ValueError(f"workspace_dir is {config.workspace_dir!r}; it must not contain '..', which could name the workspace of another customer")
    path = Path(config.workspace_dir).absolute()
    if not path.name:
        raise ValueError(f"workspace_dir is {config.workspace_dir!r}; its last part names the customer")
    env = config.guardrails._env()
    for name, directory in (("SERVERS_DIR", config.servers_dir), ("SKILLS_DIR", config.skills_dir)):
        if Path(directory).is_dir():
            env[name] = str(Path(directory).absolute())
    return (path, tuple(sorted(env.items()))), {"data_dir": path.parent / ".sandpiper", "tenant": path.name, "env": env}


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may hold it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
