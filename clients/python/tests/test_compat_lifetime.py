"""Objects of one workspace share a server, which ends with the last of them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import unittest
from typing import cast

from sandpiper import Sandpiper, ServerUnavailable
from sandpiper._stdio import Stdio
from sandpiper.compat import AgentHelper, ExecutionConfig, ExecutionResult, FilesystemHelper, SandboxExecutor
from support import Case


def server(client: Sandpiper) -> subprocess.Popen[bytes]:
    return cast(Stdio, client._connection)._process


class TestLifetime(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        os.environ["SANDPIPER_CONFIG"] = str(cls.config)
        cls.addClassCleanup(os.environ.pop, "SANDPIPER_CONFIG")

    def executor(self) -> SandboxExecutor:
        return SandboxExecutor(ExecutionConfig(workspace_dir=f"workspaces/{self.id().rpartition('.')[2]}"))

    def test_closed_executor_leaves_others_their_server(self) -> None:
        a, b = self.executor(), self.executor()
        helper = FilesystemHelper(workspace_dir=a.execution_config.workspace_dir)
        self.assertEqual(a.execute("print(1)").output, "1")
        process = server(b.client)
        a.close()
        a.close()  # not that of b
        self.assertEqual(b.execute("print(2)").output, "2")
        with self.assertRaisesRegex(ServerUnavailable, "this SandboxExecutor was closed"):
            a.execute("print(3)")
        self.assertEqual(AgentHelper(helper, a).execute_task("Calculate 5 + 3", verbose=False).result, ExecutionResult.FAILURE)
        b.close()
        self.assertEqual(helper.list_workspace_files(), [])
        helper.close()
        self.assertEqual(process.returncode, 0)

    def test_new_executor_after_the_last_was_closed(self) -> None:
        a = self.executor()
        a.execute("save_state('x', 1)")
        process = server(a.client)
        a.close()
        self.assertEqual(process.returncode, 0)
        with self.executor() as b:  # while a exists
            self.assertEqual(b.execute("print(get_state('x'))").output, "1")

    def test_collected_executors_do_not_count(self) -> None:
        a, b = self.executor(), self.executor()
        a.execute("1")
        process = server(a.client)
        del a
        gc.collect()
        self.assertEqual(b.execute("print(2)").output, "2")
        self.executor()  # forgotten at once
        b.close()
        self.assertEqual(process.returncode, 0)
        c, d = self.executor(), self.executor()
        c.execute("1")
        process = server(c.client)
        del c, d
        gc.collect()
        self.assertEqual(process.wait(20), 0)

    def test_threads_close_their_executors(self) -> None:
        outputs: list[str | None] = []
        start = threading.Barrier(8)

        def work(i: int) -> None:
            start.wait()
            with self.executor() as e:
                outputs.append(e.execute(f"print({i})").output)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(map(str, outputs)), [str(i) for i in range(8)])


FORK = """
import os, sys, threading
from sandpiper.compat import ExecutionConfig, SandboxExecutor
parent = SandboxExecutor(ExecutionConfig(workspace_dir="workspaces/fork"))
print(parent.execute("print('before')").output, flush=True)
ends, go = os.pipe()
child = os.fork()
if child == 0:
    os.close(go)
    print(parent.execute("print('child')").output, flush=True)
    parent.close()
    os.read(ends, 1)  # the rest of its life is longer than that of the server
    os._exit(0)
print(parent.execute("print('parent')").output, flush=True)
process = parent.client._connection._process
parent.close()
print("ended with", process.returncode, flush=True)
os.close(go)
print("child", os.waitpid(child, 0)[1], flush=True)
"""


class TestFork(Case):
    def test_child_has_a_server_of_its_own(self) -> None:
        env = {**os.environ, "SANDPIPER_CONFIG": str(self.config), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], env=env, cwd=self.dir, capture_output=True, text=True, timeout=60, check=False)
        lines = sorted(done.stdout.splitlines())
        self.assertEqual((lines, done.stderr), (["before", "child", "child 0", "ended with 0", "parent"], ""))


if __name__ == "__main__":
    unittest.main()
