"""The operations of background executions, workflows, schedules and forms."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ._errors import RequestTimeout
from ._operations import Call, Operation, given, list_all
from ._results import BackgroundStatus, Result, Schedule, Workflow


def dispatch(
    code: str | None,
    description: str | None,
    context_vars: Mapping[str, Any] | None,
    timeout_seconds: float | None,
    on_restart: str | None,
) -> Operation[str]:
    """Start a background execution and return its id."""
    arguments = given(code=code, task_description=description, context_vars=context_vars, timeout_seconds=timeout_seconds, on_restart=on_restart)
    return str((yield Call("dispatch_background_task", arguments))["execution_id"])


def status(execution_id: str) -> Operation[BackgroundStatus]:
    """Return its state, its progress and the last output."""
    return BackgroundStatus.parse((yield Call("get_background_task_status", {"execution_id": execution_id})))


_WAIT = 60.0  # seconds of one request; the server allows an hour


def wait(execution_id: str, timeout: float | None = None, *, check: bool = True) -> Operation[Result]:
    """Wait for its end and return the result.

    Code that failed or was cancelled raises ExecutionError, and code that waits for a person
    ExecutionSuspended; with check=False both are a Result. After timeout seconds RequestTimeout
    is raised; the execution continues.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    while True:
        seconds = _WAIT if ends is None else min(_WAIT, max(ends - time.monotonic(), 0.001))
        call = Call("wait_for_background_task", {"execution_id": execution_id, "timeout": seconds}, seconds=seconds)
        now = BackgroundStatus.parse((yield call))
        if now.ended or now.questions:
            result = now.outcome()
            return result.check() if check else result
        if ends is not None and time.monotonic() >= ends:
            raise RequestTimeout(f"execution {execution_id} did not end within {timeout:g} seconds; it is {now.state}", "it continues: call wait() again, or cancel()")


def list_background() -> Operation[tuple[BackgroundStatus, ...]]:
    """Return the latest 100 background executions, without output and result; those that have not ended come first."""
    answer = yield Call("list_background_tasks")
    return tuple(map(BackgroundStatus.parse, answer.get("executions") or ()))


def cancel(execution_id: str) -> Operation[None]:
    """End the execution, and the tool call that it makes. One that has ended stays as it is."""
    yield Call("cancel_background_task", {"execution_id": execution_id})


def signal(execution_id: str, event: str, value: Any = None) -> Operation[None]:
    """Send an event with a JSON value, which the code receives by wait_for(event)."""
    yield Call("signal_execution", {"execution_id": execution_id, "event": event, "value": value})


def list_workflows() -> Operation[list[Workflow]]:
    """Return the workflows, by name."""
    return [Workflow.parse(w) for w in (yield from list_all("list_workflows", "workflows"))]


def run_workflow(name: str, inputs: Mapping[str, Any] | None = None, *, check: bool = True) -> Operation[Result]:
    """Run a workflow and return its outputs as the result. check is that of Sandpiper.execute."""
    result = Result.parse((yield Call("run_workflow", given(name=name, inputs=inputs), executes=True)))
    return result.check() if check else result


def save_workflow(source: str) -> Operation[None]:
    """Check a workflow in YAML and save it, replacing the one of its name."""
    yield Call("save_workflow", {"source": source})


def create_schedule(
    name: str,
    *,
    skill: str | None = None,
    workflow: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    every: str | None = None,
    on_overlap: str | None = None,
    on_missed: str | None = None,
) -> Operation[Schedule]:
    """Run a skill or a workflow by a cron expression, or every "10m".

    A person approves it first, unless the policy allows it: until then RequestError is raised. on_overlap
    is skip or queue, and on_missed run_once or skip.
    """
    arguments = given(
        name=name,
        skill=skill,
        workflow=workflow,
        inputs=inputs,
        cron=cron,
        time_zone=time_zone,
        every=every,
        on_overlap=on_overlap,
        on_missed=on_missed,
    )
    return Schedule.parse((yield Call("create_schedule", arguments)).get("schedule") or {})


def list_schedules() -> Operation[list[Schedule]]:
    """Return the schedules, by name."""
    return [Schedule.parse(s) for s in (yield Call("list_schedules")).get("schedules") or ()]


def delete_schedule(name: str) -> Operation[None]:
    """Delete a schedule."""
    yield Call("delete_schedule", {"name": name})


def inspect_form(file: str, *, check: bool = True) -> Operation[Result]:
    """Return a result with the kind, title, pages, fields, warnings and submit of a form in the workspace: PDF, HTML or JSON Schema."""
    result = Result.parse((yield Call("inspect_form", {"file": file}, executes=True)))
    return result.check() if check else result


def fill_form(
    file: str, data: Mapping[str, Any], save_as: str, *, ignore_scripts: bool = False, check: bool = True
) -> Operation[Result]:
    """Fill in a form with data by field name or meaning, and save it as another file.

    The result has the message, the review and the unused data. Required values that are missing raise
    ExecutionSuspended; resume(execution_id, answer) passes them on.
    """
    arguments = given(file=file, data=data, save_as=save_as, ignore_scripts=ignore_scripts or None)
    result = Result.parse((yield Call("fill_form", arguments, executes=True)))
    return result.check() if check else result
