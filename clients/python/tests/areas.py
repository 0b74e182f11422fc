"""What workflows, schedules, forms, privacy and call do, over each transport and in both clients."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from typing import Any, cast

from sandpiper import AsyncSandpiper, ExecutionError, ExecutionSuspended, RequestError, Sandpiper, UnsupportedError
from support import Case

WORKFLOW = """
name: greet
description: Greets
inputs:
  properties: {who: {type: string}}
  required: [who]
steps:
  - name: text
    type: code_execution
    config: {variables: {who: "${{ inputs.who }}"}, code: result = "hello " + who}
outputs: {text: "${{ steps.text.result }}"}
"""
FORM = {"type": "object", "title": "Guest", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}


class Areas(Case):
    client: Sandpiper
    restores = True  # values of tokens

    def test_workflows(self) -> None:
        workflows = self.client.workflows
        workflows.save(WORKFLOW)
        self.assertEqual([(w.name, w.description, w.origin, w.steps, w.problem) for w in workflows.list()], [("greet", "Greets", "saved", 1, "")])
        self.assertEqual((workflows.list()[0].inputs or {})["required"], ["who"])
        self.assertEqual(workflows.run("greet", {"who": "Ada"}).result, {"text": "hello Ada"})
        with self.assertRaisesRegex(RequestError, "input who: is missing"):
            workflows.run("greet")
        with self.assertRaisesRegex(RequestError, 'there is no workflow "none"'):
            workflows.run("none")
        with self.assertRaisesRegex(RequestError, 'no key "stepz"'):
            workflows.save(WORKFLOW.replace("steps:", "stepz:"))
        workflows.save(WORKFLOW.replace('"hello " + who', "1 / 0").replace("name: greet", "name: fail"))
        with self.assertRaisesRegex(ExecutionError, "ZeroDivisionError"):
            workflows.run("fail", {"who": "Ada"})
        self.assertFalse(workflows.run("fail", {"who": "Ada"}, check=False).success)
        workflows.save(WORKFLOW.replace('"hello " + who', "ask(who)").replace("name: greet", "name: asks"))
        with self.assertRaises(ExecutionSuspended) as e:
            workflows.run("asks", {"who": "Who?"})
        self.assertEqual(self.client.resume(e.exception.execution_id, "Ada").result, {"text": "Ada"})

    def test_schedules(self) -> None:
        schedules = self.client.schedules
        self.client.skills.save("report", "def report(x): return x")
        made = schedules.create("daily", skill="report", cron="0 8 * * *", time_zone="UTC", inputs={"x": 2}, on_overlap="queue", on_missed="skip")
        self.assertEqual((made.when, made.time_zone, made.runs, made.inputs, made.source), ("0 8 * * *", "UTC", "skill report", {"x": 2}, "agent"))
        self.assertEqual((made.state, made.on_overlap, made.on_missed, (made.next or "")[11:]), ("active", "queue", "skip", "08:00:00Z"))
        self.assertEqual([s.name for s in schedules.list()], ["daily"])
        schedules.create("often", skill="report", every="1d", inputs={"x": 2})
        schedules.delete("daily")
        self.assertEqual([(s.name, s.when) for s in schedules.list()], [("often", "every 24h0m0s")])
        schedules.delete("often")
        with self.assertRaisesRegex(RequestError, 'there is no schedule "daily"'):
            schedules.delete("daily")
        with self.assertRaisesRegex(RequestError, "cron"):
            schedules.create("wrong", skill="report", cron="x")

    def test_forms(self) -> None:
        self.client.files.write("form.json", json.dumps(FORM))
        form = self.client.forms.inspect("form.json").result
        self.assertEqual((form["title"], [f["name"] for f in form["fields"]]), ("Guest", ["name", "age"]))
        filled = self.client.forms.fill("form.json", {"name": "Ada", "size": 1}, "ada.json")
        self.assertEqual(filled.result["unused"], ["size"])
        self.assertEqual(self.client.execute("json.loads(read_file('ada.json'))['name'] == 'Ada'").result, True)
        with self.assertRaises(ExecutionSuspended) as e:
            self.client.forms.fill("form.json", {"age": 3}, "asked.json", ignore_scripts=True)
        self.assertIn("message", self.client.resume(e.exception.execution_id, {"name": "Ada"}).result)
        with self.assertRaisesRegex(ExecutionError, "FileNotFoundError"):
            self.client.forms.inspect("none.pdf")
        self.assertEqual(self.client.forms.inspect("none.pdf", check=False).error_type, "FileNotFoundError")

    def test_privacy(self) -> None:
        clean = self.client.privacy.sanitize("Write to ada@example.com")
        self.assertEqual((clean.found, clean.types), (1, ("EMAIL",)))
        self.assertRegex(clean.text, r"^Write to \[EMAIL_\w+\]$")
        if self.restores:
            self.assertEqual(self.client.privacy.restore(clean.text), "Write to ada@example.com")
            ran = self.client.execute("write_file('people.txt', who)\nwho", context_vars={"who": "bob@example.com"})
            self.assertEqual(self.client.privacy.restore(execution_id=ran.execution_id), "bob@example.com")
            self.assertEqual(self.client.privacy.restore(filename="people.txt"), "bob@example.com")
            with self.assertRaisesRegex(RequestError, "one of text, execution_id and filename"):
                self.client.privacy.restore("a", filename="people.txt")
        else:
            with self.assertRaisesRegex(RequestError, "pii.restore"):
                self.client.privacy.restore(clean.text)

    def test_any_tool_is_called(self) -> None:
        self.assertEqual(self.client.call("get_version")["name"], "sandpiper")
        self.assertEqual(self.client.call("execute_code", {"code": "6 * 7"})["result"], 42)
        with self.assertRaisesRegex(ExecutionError, "ZeroDivisionError"):
            self.client.call("execute_code", {"code": "1 / 0"})
        with self.assertRaises(ExecutionSuspended) as e:
            self.client.call("execute_code", {"code": "ask('Who?')"})
        self.assertEqual(self.client.call("resume_execution", {"execution_id": e.exception.execution_id, "answer": "Ada"})["result"], "Ada")
        with self.assertRaisesRegex(RequestError, 'there is no state "none"'):
            self.client.call("get_state", {"state_file": "none"})
        with self.assertRaisesRegex(UnsupportedError, 'there is no tool "none"'):
            self.client.call("none")


class Waiting:
    """An AsyncSandpiper with methods that wait, so that the tests of Sandpiper are its tests."""

    def __init__(self, of: Any, loop: asyncio.AbstractEventLoop | None = None) -> None:
        if loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True).start()
        self._of, self._loop = of, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if inspect.iscoroutinefunction(value):
            return lambda *args, **options: asyncio.run_coroutine_threadsafe(value(*args, **options), self._loop).result()
        return Waiting(value, self._loop)

    def end(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        while self._loop.is_running():
            pass
        self._loop.close()


def waiting(client: AsyncSandpiper) -> Sandpiper:
    return cast(Sandpiper, Waiting(client))
