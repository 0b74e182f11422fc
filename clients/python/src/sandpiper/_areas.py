"""The parts of a client. Their methods are the operations with the same names."""

from __future__ import annotations

from . import _operations as ops
from . import _run_operations as runs
from . import _tool_operations as tools
from ._method import Async, Method, Mode, Part, Sync


class Files(Part[Mode]):
    """The files of the workspace."""

    read = Method(ops.read)
    read_text = Method(ops.read_text)
    write = Method(ops.write)
    list = Method(ops.list_files)
    delete = Method(ops.delete)


class Skills(Part[Mode]):
    """Saved Python modules."""

    save = Method(ops.save_skill)
    load = Method(ops.load_skill)
    list = Method(ops.list_skills)
    search = Method(ops.search_skills)
    delete = Method(ops.delete_skill)


class States(Part[Mode]):
    """Small JSON values by name."""

    get = Method(ops.get_state)
    save = Method(ops.save_state)


class Tools(Part[Mode]):
    """The tools of connected MCP servers."""

    search = Method(tools.search)
    select = Method(tools.select)
    describe = Method(tools.describe)
    of_server = Method(tools.of_server)
    servers = Method(tools.servers)
    call = Method(tools.call)


class Workflows(Part[Mode]):
    """Saved workflows. A run is an execution: resume continues one that waits for a person."""

    list = Method(runs.list_workflows)
    run = Method(runs.run_workflow)
    save = Method(runs.save_workflow)


class Schedules(Part[Mode]):
    """Skills and workflows that run at times."""

    create = Method(runs.create_schedule)
    list = Method(runs.list_schedules)
    delete = Method(runs.delete_schedule)


class Forms(Part[Mode]):
    """Forms in the workspace."""

    inspect = Method(runs.inspect_form)
    fill = Method(runs.fill_form)


class Privacy(Part[Mode]):
    """Tokens for personal data in texts."""

    sanitize = Method(ops.sanitize)
    restore = Method(ops.restore)


class _Session(Part[Mode]):
    execute = Method.of(ops.session_execute)

    @property
    def id(self) -> str:
        return self._id


class Session(_Session[Sync]):
    """Executions that share variables, imports and functions."""


class AsyncSession(_Session[Async]):
    """Executions that share variables, imports and functions."""


class _Background(Part[Mode]):
    status = Method.of(runs.status)
    wait = Method.of(runs.wait)
    cancel = Method.of(runs.cancel)
    signal = Method.of(runs.signal)

    @property
    def execution_id(self) -> str:
        return self._id


class Background(_Background[Sync]):
    """A background execution, which outlives the client and the server. Keep execution_id to find it again, also in another program."""


class AsyncBackground(_Background[Async]):
    """A background execution, which outlives the client and the server. Keep execution_id to find it again, also in another program."""
