"""What clients do over each transport. The tests are those of the classes that extend Operations."""

from __future__ import annotations

import os
import subprocess
import threading
import time

from sandpiper import ExecutionError, ExecutionSuspended, RequestError, RequestTimeout, Sandpiper, SandpiperError, ServerUnavailable
from sandpiper._operations import Call as Call
from support import Case


class Operations(Case):
    """The operations, over each transport."""

    client: Sandpiper
    tenant = "customer_A"

    def test_execute_returns_result_and_output(self) -> None:
        r = self.client.execute("print('a'); print(name)\n[1, len(name)]", context_vars={"name": "ümlaut"})
        self.assertEqual((r.success, r.result, r.output, r.error), (True, [1, 6], "a\nümlaut", None))
        self.assertTrue(r.execution_id.startswith("exec_"))

    def test_execute_raises_the_exception_of_the_code(self) -> None:
        with self.assertRaises(ExecutionError) as e:
            self.client.execute("print('before')\n1/0")
        self.assertEqual(str(e.exception), "ZeroDivisionError: division by zero")
        self.assertEqual(e.exception.result.output, "before")
        self.assertIn("line 2", e.exception.result.traceback)
        r = self.client.execute("1/0", check=False)
        self.assertEqual((r.success, r.error_type, r.suspended), (False, "ZeroDivisionError", False))

    def test_execute_reports_limits_with_a_hint(self) -> None:
        with self.assertRaises(ExecutionError) as e:
            self.client.execute("while True: pass", timeout_seconds=0.5)
        self.assertEqual(e.exception.result.error_type, "timeout")
        self.assertIn("\nhint: do less in one call", str(e.exception))

    def test_execute_rejects_wrong_arguments(self) -> None:
        with self.assertRaisesRegex(RequestError, "timeout_seconds"):
            self.client.execute("1", timeout_seconds=100000)
        with self.assertRaises(TypeError):
            self.client.execute("1", context_vars={"x": object()})
        with self.assertRaises(ValueError):
            self.client.execute("1", context_vars={"x": float("nan")})
        self.assertEqual(self.client.execute("1").result, 1)

    def test_large_result_is_a_file(self) -> None:
        r = self.client.execute("'x' * 1000000")
        self.assertTrue(r.is_preview)
        assert r.result_file
        self.assertEqual(len(self.client.files.read(r.result_file)), 1000002)

    def test_session_keeps_variables(self) -> None:
        session = self.client.session("report")
        self.assertEqual(session.execute("rows = [1, 2, 3]").session_state, "new")
        self.assertEqual(session.execute("sum(rows)").result, 6)
        with self.assertRaisesRegex(ExecutionError, "NameError"):
            self.client.session("other").execute("rows")
        with self.assertRaisesRegex(ExecutionError, "NameError"):
            self.client.execute("rows")

    def test_files(self) -> None:
        files = self.client.files
        everything = bytes(range(256)) * 3000
        long = "é€😀\r\n" * 60000
        files.write("a/binary", everything)
        files.write("a/text", long)
        files.write("a/empty", b"")
        self.assertEqual(files.read("a/binary"), everything)
        self.assertEqual(files.read_text("a/text"), long)
        self.assertEqual(files.read("a/empty"), b"")
        self.assertEqual(files.list("a"), ["a/binary", "a/empty", "a/text"])
        files.delete("a/text")
        self.assertEqual(files.list("a"), ["a/binary", "a/empty"])
        self.assertIn("a/binary", files.list())
        for wrong in (lambda: files.read("a/text"), lambda: files.delete("a/text"), lambda: files.read("../x"), lambda: files.write("../x", b"\xff")):
            with self.assertRaises(RequestError):
                wrong()

    def test_changed_text_of_a_file_is_reported(self) -> None:
        self.client.files.write("page.html", "<img src=https://example.com/a.png>")
        with self.assertWarnsRegex(RuntimeWarning, "1 images, tags or control characters of page.html were changed; .* edit it there"):
            self.client.files.read_text("page.html")
        self.client.files.delete("page.html")

    def test_list_of_very_many_files(self) -> None:
        self.client.execute("import os\nos.mkdir('many')\nfor i in range(3000): open(f'many/f{i:04}_' + 'x' * 100, 'w').close()")
        self.assertEqual(len(self.client.files.list("many")), 3000)
        self.client.execute("import shutil\nshutil.rmtree('many')")

    def test_skills(self) -> None:
        skills = self.client.skills
        skills.save("double", "def double(x): return 2 * x", "Doubles a number", ["math"])
        self.assertEqual(self.client.execute("from skills import double\ndouble(15)").result, 30)
        self.assertEqual([(s.name, s.description, s.tags) for s in skills.list()], [("double", "Doubles a number", ("math",))])
        self.assertEqual([s.name for s in skills.search("twice a number", ["math"])], [s.name for s in skills.search(tags=["math"])])
        skills.save("double", "def double(x): return x + x")
        self.assertEqual((skills.load("double").version, skills.load("double", 1).code), (2, "def double(x): return 2 * x"))
        skills.delete("double")
        self.assertEqual(skills.list(), [])
        with self.assertRaisesRegex(RequestError, 'there is no skill "double"'):
            skills.load("double")
        with self.assertRaisesRegex(RequestError, "(?i)syntax"):
            skills.save("broken", "def (")

    def test_state(self) -> None:
        self.client.state.save("progress", {"step": 1})
        self.assertEqual(self.client.execute("get_state('progress')['step']").result, 1)
        self.client.state.save("progress", [2])
        s = self.client.state.get("progress")
        self.assertEqual((s.name, s.value, s.version), ("progress", [2], 2))
        self.client.state.save("progress", None)
        with self.assertRaisesRegex(RequestError, 'there is no state "progress"'):
            self.client.state.get("progress")
        with self.assertRaisesRegex(RequestError, 'there is no state "other"'):
            self.client.state.get("other")

    def test_tools(self) -> None:
        tools = self.client.tools
        self.assertEqual(tools.search("add two numbers")[0].name, "calculator.add")
        self.assertEqual(len(tools.search("weather", max_results=1)), 1)
        self.assertEqual({t.server for t in tools.search(["add two numbers", "weather forecast"], max_results=4)}, {"calculator", "weather"})
        with self.assertRaisesRegex(ValueError, "must be name, summary or full"):
            tools.search("weather", detail_level="brief")
        add = tools.describe("calculator.add")
        self.assertEqual((add.server, add.tool, add.raw["input_schema"]["required"]), ("calculator", "add", ["a", "b"]))
        self.assertEqual(sorted(t.tool for t in tools.of_server("weather")), ["get_forecast", "get_weather"])
        self.assertEqual([s["name"] for s in tools.servers()], ["calculator", "weather"])
        self.assertEqual(tools.call("calculator.add", {"a": 1, "b": 2}), {"result": 3})
        with self.assertRaisesRegex(ExecutionError, "argument a"):
            tools.call("calculator.add", {"a": "x", "b": 2})
        with self.assertRaisesRegex(ExecutionError, 'no tool "ad"'):
            tools.call("calculator.ad", {"a": 1, "b": 2})
        with self.assertRaisesRegex(ValueError, "SERVER.TOOL"):
            tools.call("add")

    def test_question_is_answered(self) -> None:
        with self.assertRaises(ExecutionSuspended) as e:
            self.client.execute("ask('Which colour?', {'enum': ['red', 'blue']})")
        self.assertEqual([q.question for q in e.exception.questions], ["Which colour?"])
        self.assertIn(e.exception.execution_id, [x["execution_id"] for x in self.client.waiting()])
        with self.assertRaisesRegex(SandpiperError, "red"):
            self.client.resume(e.exception.execution_id, "green")
        self.assertEqual(self.client.resume(e.exception.execution_id, "red").result, "red")
        with self.assertRaises(SandpiperError):
            self.client.resume("exec_none")

    def test_code_cannot_imitate_suspension(self) -> None:
        r = self.client.execute("class approval_required(Exception): pass\nraise approval_required('x')", check=False)
        self.assertFalse(r.suspended)

    def test_approved_call_is_made(self) -> None:
        with self.assertRaises(ExecutionSuspended) as e:
            self.client.tools.call("calculator.multiply", {"a": 6, "b": 7})
        (question,) = e.exception.questions
        self.assertEqual((question.source, question.approval_id), ("calculator.multiply", question.id))
        self.assertIn(f"approvals approve {question.approval_id}", e.exception.hint)
        with self.assertRaises(SandpiperError):  # only the person can
            self.client.resume(e.exception.execution_id, True)
        command = [os.environ["SANDPIPER"], "--config", str(self.config), "approvals", "approve", question.approval_id, "--tenant", self.tenant]
        subprocess.run(command, env={**os.environ, "SANDPIPER_DATA_DIR": str(self.data_dir)}, check=True, capture_output=True)
        self.assertEqual(self.client.resume(e.exception.execution_id).result, {"result": 42})

    def test_dry_run_is_applied(self) -> None:
        r = self.client.execute("from servers.calculator import multiply\nmultiply(a=6, b=7)", dry_run=True)
        self.assertEqual([(c.server, c.tool, c.arguments) for c in r.plan], [("calculator", "multiply", {"a": 6, "b": 7})])
        self.assertTrue(r.plan_id)

    def test_task_is_solved(self) -> None:
        r = self.client.task("Calculate 5 + 3")
        self.assertEqual((r.success, r.result["result"], r.available), (True, 8, 5))
        self.assertIn("from servers.calculator import", r.code)
        self.assertTrue(r.tools and 0 < r.share < 1 and r.saved_tokens)

    def test_task_that_cannot_be_solved_says_why(self) -> None:
        with self.assertRaises(SandpiperError) as e:
            self.client.task("Write an ode to autumn")
        self.assertTrue(e.exception.message)
        with self.assertRaisesRegex(RequestError, "empty"):
            self.client.task(" ")

    def test_background_execution_is_driven(self) -> None:
        done = self.client.dispatch("print(name)\nresult = [ask('Which colour?'), wait_for('paid')]", context_vars={"name": "Ada"})
        self.assertTrue(done.execution_id.startswith("exec_"))
        with self.assertRaises(ExecutionSuspended) as e:
            done.wait(60)
        self.assertEqual([q.question for q in e.exception.questions], ["Which colour?"])
        self.assertEqual(e.exception.execution_id, done.execution_id)
        status = done.status()
        self.assertEqual((status.state, status.ended, status.result), ("input_required", False, None))
        self.client.resume(done.execution_id, "blue", check=False)
        done.signal("paid", {"amount": 5})
        self.assertEqual(self.client.background(done.execution_id).wait(60).result, ["blue", {"amount": 5}])
        self.assertEqual((done.status().state, done.wait().output), ("completed", "Ada"))
        self.assertIn((done.execution_id, "completed"), [(x.execution_id, x.state) for x in self.client.list_background()])
        done.cancel()
        self.assertEqual(done.status().state, "completed")

    def test_background_execution_is_cancelled(self) -> None:
        endless = self.client.dispatch("while True: pass", on_restart="report")
        with self.assertRaisesRegex(RequestTimeout, "did not end within 0.5 seconds; it is (queued|running)"):
            endless.wait(0.5)
        endless.cancel()
        with self.assertRaises(ExecutionError):
            endless.wait(60)
        self.assertEqual((endless.status().state, endless.wait(check=False).success), ("cancelled", False))

    def test_background_execution_that_fails(self) -> None:
        with self.assertRaisesRegex(ExecutionError, "ZeroDivisionError"):
            self.client.dispatch("1/0").wait(60)
        with self.assertRaisesRegex(RequestError, "neither code nor task_description"):
            self.client.dispatch()
        with self.assertRaisesRegex(RequestError, "there is no background execution"):
            self.client.background("exec_none").status()

    def test_background_task_in_words(self) -> None:
        solved = self.client.dispatch(task="Calculate 5 + 3")
        self.assertEqual(solved.wait(60).result["result"], 8)
        self.assertEqual(solved.status().description, "Calculate 5 + 3")

    def test_timeout_cancels_the_execution(self) -> None:
        began = time.monotonic()
        patient, self.client._timeout = self.client._timeout, 0.5
        try:
            with self.assertRaisesRegex(RequestTimeout, "execute_code was not answered within 0.5 seconds") as e:
                self.client.execute("import time\ntime.sleep(60)")
            self.assertIsInstance(e.exception, TimeoutError)
        finally:
            self.client._timeout = patient
        self.assertLess(time.monotonic() - began, 20)
        while self.client.stats()["executions"]["running"]:
            self.assertLess(time.monotonic() - began, 30)
            time.sleep(0.05)

    def test_threads_share_a_client(self) -> None:
        results: list[object] = []
        threads = [threading.Thread(target=lambda i=i: results.append(self.client.execute(f"{i} * 2").result)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(map(str, results)), sorted(str(2 * i) for i in range(8)))

    def test_closed_client_says_so(self) -> None:
        client = Sandpiper(config=self.config, data_dir=self.data_dir)
        client.close()
        with self.assertRaisesRegex(ServerUnavailable, "this client was closed"):
            client.execute("1")
        client.close()

