from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import cast

import operations
from sandpiper import (
    AccessDenied,
    AsyncSandpiper,
    BinaryNotFound,
    ExecutionError,
    RequestError,
    RequestTimeout,
    Sandpiper,
    SandpiperError,
    ServerUnavailable,
    UnsupportedError,
)
from sandpiper._stdio import Stdio
from support import SERVERS, Case

TOKENS = """
http:
  tokens: {customer_A: aaaaaaaaaaaaaaaaaaaa, customer_B: bbbbbbbbbbbbbbbbbbbb}
"""


class TestStdio(operations.Operations):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.client = Sandpiper(config=cls.config, data_dir=cls.data_dir, customer_uid=cls.tenant)
        cls.addClassCleanup(cls.client.close)


class TestHTTP(operations.Operations):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.client = Sandpiper(url=cls.serve(TOKENS)[0], token="a" * 20)
        cls.addClassCleanup(cls.client.close)


class TestSearch(Case):
    def test_search_waits_for_a_slow_server(self) -> None:
        """The server takes longer to start than one search waits, and the tools of another one are known."""
        slow = self.dir / "slow.yaml"
        slow.write_text(f'servers: {{calculator: {{command: sh, args: [-c, "sleep 11; exec {SERVERS}/calculator"]}}, weather: {{command: {SERVERS}/weather}}}}')
        with Sandpiper(config=slow, data_dir=self.dir / "slow") as client:
            self.assertEqual([t.name for t in client.tools.search("calculate", max_results=1)], ["calculator.calculate"])


class TestSelect(Case):
    def test_select_returns_tools_with_scores(self) -> None:
        with Sandpiper(config=self.config, data_dir=self.data_dir) as client:
            s = client.tools.select("Calculate 5 + 3")
            self.assertEqual({t.server for t in s.tools}, {"calculator"})
            self.assertEqual((s.tools[0].score, s.available, s.share), (1, 5, len(s.tools) / 5))
            self.assertLess(s.tokens, s.all_tokens)
            self.assertEqual(len(client.tools.select("weather of Paris", top_k=1).tools), 1)
            with self.assertRaisesRegex(RequestError, "threshold is 2") as e:
                client.tools.select("x", threshold=2)
            self.assertNotIn("error:", str(e.exception))

    def test_select_over_http(self) -> None:
        with Sandpiper(url=self.serve("")[0]) as client:
            self.assertEqual(client.tools.select("Calculate 5 + 3", top_k=1).tools[0].name, "calculator.calculate")

    def test_select_needs_the_profile(self) -> None:
        with Sandpiper(config=self.config, data_dir=self.data_dir, profile="lean") as client, self.assertRaises(UnsupportedError):
            client.tools.select("x")


class TestTaskInTheBackground(Case):
    def test_task_in_the_background_needs_no_model_of_a_client(self) -> None:
        config = self.dir / "sampling.yaml"
        config.write_text(self.config.read_text() + "tasks: {model: sampling}\n")
        with Sandpiper(config=config, data_dir=self.data_dir) as client:
            with self.assertRaisesRegex(SandpiperError, "offers no model"):
                client.task("Calculate 5 + 3")
            self.assertEqual(client.dispatch(task="Calculate 5 + 3").wait(60).result["result"], 8)


class TestLargeAnswer(Case):
    def test_large_answer_of_a_tool_is_complete(self) -> None:
        config = self.dir / "sheets.yaml"
        config.write_text(f"servers: {{sheets: {{command: '{SERVERS}/sheets'}}}}\npii: {{mode: 'off'}}\n")
        with Sandpiper(config=config, data_dir=self.data_dir) as client:
            sheet = client.tools.call("sheets.list_sheets")["sheets"][0]["name"]
            answer = client.tools.call("sheets.read_rows", {"sheet": sheet, "limit": 1000})
            self.assertEqual(len(answer["rows"]), 1000)


class TestErrors(Case):
    def test_binary_that_does_not_exist(self) -> None:
        with self.assertRaisesRegex(BinaryNotFound, "there is no program '/none/sandpiper'\nhint: "):
            Sandpiper(binary="/none/sandpiper")
        code = "from sandpiper import Sandpiper\nSandpiper()"
        env = {"PATH": "/none", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        self.assertIn("BinaryNotFound: the program sandpiper is not in PATH\nhint: install it", done.stderr)

    def test_server_that_does_not_start_says_why(self) -> None:
        wrong = self.dir / "wrong.yaml"
        wrong.write_text("prophile: full\n")
        with self.assertRaisesRegex(ServerUnavailable, "the server cannot start\nhint: .*prophile"):
            Sandpiper(config=wrong, data_dir=self.data_dir).open()
        with self.assertRaisesRegex(ServerUnavailable, "not a program|cannot be started|ended with exit code"):
            Sandpiper(binary="/bin/true", data_dir=self.data_dir).open()

    def test_killed_server_fails_calls(self) -> None:
        client = Sandpiper(config=self.config, data_dir=self.data_dir)
        client.open()
        running = client._submit(operations_call("import time; time.sleep(60)"))
        os.kill(cast(Stdio, client._connection)._process.pid, signal.SIGKILL)
        with self.assertRaisesRegex(ServerUnavailable, "the server was ended by signal 9"):
            running.result(30)
        with self.assertRaisesRegex(ServerUnavailable, "the server was ended by signal 9"):
            client.execute("1")
        client.close()

    def test_refused_token(self) -> None:
        url, _ = self.serve(TOKENS)
        for token in (None, "c" * 20):
            with self.assertRaisesRegex(AccessDenied, "answered 401: .*\nhint: check the token") as e:
                Sandpiper(url=url, token=token).open()
            self.assertNotIn("c" * 20, str(e.exception))
        with self.assertRaisesRegex(ValueError, "the token is empty or has characters"):
            Sandpiper(url=url, token="x\r\nX-Other: 1")

    def test_tokens_identify_customers(self) -> None:
        url, _ = self.serve(TOKENS)
        with Sandpiper(url=url, token="a" * 20) as a, Sandpiper(url=url, token="b" * 20) as b:
            a.files.write("secret.txt", "of a")
            self.assertEqual(b.files.list(), [])
            with self.assertRaises(RequestError):
                b.files.read("secret.txt")

    def test_url_without_a_server(self) -> None:
        url, server = self.serve("")
        with self.assertRaisesRegex(ServerUnavailable, "404.*\nhint: the URL of a server ends with /mcp"):
            Sandpiper(url=url.replace("/mcp", "/nothing")).open()
        server.terminate()
        server.wait()
        with self.assertRaisesRegex(ServerUnavailable, "refused\nhint: check that the server runs"):
            Sandpiper(url=url).open()

    def test_server_that_ends_during_a_call(self) -> None:
        url, server = self.serve("")
        client = Sandpiper(url=url)
        client.open()
        running = client._submit(operations_call("import time; time.sleep(60)"))
        time.sleep(0.5)
        server.kill()
        with self.assertRaises(ServerUnavailable):
            running.result(30)

    def test_profile_without_a_tool(self) -> None:
        with Sandpiper(config=self.config, data_dir=self.data_dir, profile="lean") as client:
            self.assertEqual(client.execute("1").result, 1)
            with self.assertRaisesRegex(UnsupportedError, 'there is no tool "save_skill" in the profile'):
                client.skills.save("x", "def x(): pass")
            with self.assertRaisesRegex(UnsupportedError, 'there is no tool "execute_task" in the profile.*\nhint: start the server with the profile full'):
                client.task("Calculate 5 + 3")

    def test_settings_that_exclude_each_other(self) -> None:
        for options in (
            {"url": "http://127.0.0.1:1/mcp", "tenant": "x"},
            {"url": "http://127.0.0.1:1/mcp", "data_dir": "x"},
            {"url": "127.0.0.1:1"},
            {"token": "x" * 20},
            {"tenant": "a", "customer_uid": "b"},
            {"tenant": ""},
        ):
            with self.assertRaises(ValueError, msg=str(options)):
                Sandpiper(**options)  # type: ignore[arg-type]

    def test_tenant_is_no_path_and_no_flag(self) -> None:
        for tenant in ("../x", ".", "--help"):
            with self.assertRaisesRegex(ServerUnavailable, "tenant id"):
                Sandpiper(config=self.config, data_dir=self.data_dir, tenant=tenant).open()


class TestLifetime(Case):
    def test_close_ends_the_server(self) -> None:
        client = Sandpiper(config=self.config, data_dir=self.data_dir)
        client.open()
        process = cast(Stdio, client._connection)._process
        client.close()
        self.assertEqual(process.poll(), 0)

    def test_forgotten_client_ends_its_server(self) -> None:
        client = Sandpiper(config=self.config, data_dir=self.data_dir)
        client.open()
        process, gone = cast(Stdio, client._connection)._process, weakref.ref(client)
        del client
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(process.wait(20), 0)

    def test_server_ends_with_a_killed_program(self) -> None:
        code = (
            "import os, sys, time\nfrom sandpiper import Sandpiper\n"
            f"c = Sandpiper(config={str(self.config)!r}, data_dir={str(self.data_dir)!r}); c.open()\n"
            "print(c._connection._process.pid, flush=True); time.sleep(60)"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout
            server = int(program.stdout.readline())
            program.kill()
        deadline = time.monotonic() + 20
        while Path(f"/proc/{server}/cmdline").exists() and Path(f"/proc/{server}/cmdline").read_bytes():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


    def test_child_that_closes_its_copy_leaves_requests_of_the_parent(self) -> None:
        code = (
            "import os, sys, threading, time\nfrom sandpiper import Sandpiper\nc = Sandpiper(url=sys.argv[1])\n"
            "results = []\nt = threading.Thread(target=lambda: results.append(c.execute('import time; time.sleep(2); 6 * 7').result)); t.start()\n"
            "while not c.stats()['executions']['running']: time.sleep(0.05)\n"
            "child = os.fork()\n"
            "if child == 0:\n    c.files.write('child', 'x')\n    c.close()\n    os._exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0\nt.join()\nprint(results, c.files.list())"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, self.serve("")[0]], env=env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.stdout, done.stderr), ("[42] ['child']\n", ""))


class TestAsync(Case):
    def test_client_outlives_a_loop(self) -> None:
        client = AsyncSandpiper(config=self.config, data_dir=self.data_dir, tenant="loops")

        async def leave() -> None:
            await client.open()
            _running = asyncio.ensure_future(client.execute("import time; time.sleep(60)"))
            while not (await client.stats())["executions"]["running"]:
                await asyncio.sleep(0.05)

        async def use() -> object:
            async with client:
                return (await client.execute("6 * 7")).result

        asyncio.run(leave())
        self.assertEqual(asyncio.run(use()), 42)

    def run_with(self, client: AsyncSandpiper) -> None:
        async def main() -> None:
            async with client as c:
                results = await asyncio.gather(*(c.execute(f"{i} * 2") for i in range(3)))
                self.assertEqual([r.result for r in results], [0, 2, 4])
                with self.assertRaises(ExecutionError):
                    await c.execute("1/0")
                await c.files.write("a.txt", "x")
                self.assertEqual((await c.files.read_text("a.txt"), await c.files.list()), ("x", ["a.txt"]))
                session = c.session("s")
                await session.execute("x = 1")
                self.assertEqual((await session.execute("x")).result, 1)
                await c.skills.save("one", "def one(): return 1")
                self.assertEqual([s.name for s in await c.skills.list()], ["one"])
                await c.execute("for i in range(60): save_skill(f'two_{i}', 'x = 1')")
                self.assertEqual(len(await c.skills.list()), 61)
                await c.state.save("n", 1)
                self.assertEqual((await c.state.get("n")).value, 1)
                self.assertEqual((await c.tools.search("add two numbers"))[0].name, "calculator.add")
                self.assertEqual(await c.tools.call("calculator.add", {"a": 1, "b": 2}), {"result": 3})
                waits = await c.dispatch("result = wait_for('go')")
                await waits.signal("go", [1])
                self.assertEqual((await c.background(waits.execution_id).wait(60)).result, [1])
                endless = await c.dispatch("while True: pass")
                await endless.cancel()
                self.assertEqual((await endless.wait(60, check=False)).success, False)
                self.assertEqual({(await endless.status()).state} | {s.state for s in await c.list_background()}, {"cancelled", "completed"})
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(c.execute("import time\ntime.sleep(60)"), 0.5)
                deadline = time.monotonic() + 20
                while (await c.stats())["executions"]["running"]:
                    self.assertLess(time.monotonic(), deadline)
                    await asyncio.sleep(0.05)
                c._timeout = 0.1
                with self.assertRaises(RequestTimeout):
                    await c.execute("import time\ntime.sleep(60)")
            with self.assertRaises(SandpiperError):
                await client.execute("1")

        asyncio.run(main())

    def test_stdio(self) -> None:
        self.run_with(AsyncSandpiper(config=self.config, data_dir=self.data_dir, tenant="a"))

    def test_http(self) -> None:
        self.run_with(AsyncSandpiper(url=self.serve("")[0], timeout=100))

    def test_select(self) -> None:
        async def main() -> None:
            async with AsyncSandpiper(config=self.config, data_dir=self.data_dir) as c:
                self.assertEqual((await c.tools.select("Calculate 5 + 3")).tools[0].server, "calculator")

        asyncio.run(main())


def operations_call(code: str) -> operations.Call:
    return operations.Call("execute_code", {"code": code}, executes=True)
