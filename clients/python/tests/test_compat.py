"""Snippets of the framework's documentation, verbatim except for their imports."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from typing import Any

from sandpiper import compat
from sandpiper.compat import AgentHelper, CodeGenerator, ExecutionConfig, ExecutionResult, FilesystemHelper, GuardrailConfig, SandboxExecutor, ToolSelector, load_config
from support import Case

CREATE = '''
from pathlib import Path
from sandpiper.compat import ExecutionConfig
from sandpiper.compat import SandboxExecutor

def create_executor_for_customer(customer_uid: str, base_config: ExecutionConfig) -> SandboxExecutor:
    """Create a SandboxExecutor with customer-specific workspace."""
    # Create customer-specific workspace path
    workspace_base = Path("./workspaces")
    customer_workspace = workspace_base / customer_uid
    
    # Create customer-specific execution config
    customer_exec_config = ExecutionConfig(
        workspace_dir=str(customer_workspace),
        servers_dir=base_config.servers_dir,  # Shared source
        skills_dir=base_config.skills_dir,    # Shared source
        sandbox_type=base_config.sandbox_type,
        sandbox_image=base_config.sandbox_image,
        allow_network_access=base_config.allow_network_access,
    )
    
    return SandboxExecutor(
        execution_config=customer_exec_config,
        guardrail_config=base_config.guardrails,
    )
'''

USAGE = '''
# Usage:
customer_uid = "user_12345"
executor = create_executor_for_customer(customer_uid, base_config)

# Multiple sessions for same customer share workspace
session_1_executor = create_executor_for_customer(customer_uid, base_config)
session_2_executor = create_executor_for_customer(customer_uid, base_config)
# Both sessions use same workspace: ./workspaces/user_12345/
'''

SESSIONS = '''
# Session 1: Initial work
customer_uid = "user_12345"
executor_1 = create_executor_for_customer(customer_uid, config)

# Task 1: Write state
executor_1.execute(
    code="""
import json
import os
os.makedirs('/workspace/state', exist_ok=True)
with open('/workspace/state/results.json', 'w') as f:
    json.dump({'step': 1, 'result': 8}, f)
print("State saved")
""",
    task_description="Save initial state"
)

# Session 2: Same customer reads data (different execution)
executor_2 = create_executor_for_customer(customer_uid, config)  # Same workspace!

executor_2.execute(
    code="""
import json
with open('/workspace/state/results.json', 'r') as f:
    data = json.load(f)
print(f"Resumed from step {data['step']}")
""",
    task_description="Resume from previous session"
)  # ✅ Can read data from session 1!
'''

PATTERN = [
    """
   config = load_config()
   fs_helper = FilesystemHelper(...)
   executor = SandboxExecutor(...)
   agent = AgentHelper(fs_helper, executor)
""",
    """
   task_description = "Your task description here"
""",
    """
   result, output, error = agent.execute_task(task_description, verbose=True)
""",
]


class TestSnippets(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        os.environ["SANDPIPER_CONFIG"] = str(cls.config)
        cls.addClassCleanup(os.environ.pop, "SANDPIPER_CONFIG")

    def names(self, *snippets: str, **names: Any) -> dict[str, Any]:
        for snippet in snippets:
            exec(textwrap.dedent(snippet), names)
        return names

    def descriptions(self, executor: SandboxExecutor) -> list[str]:
        """The descriptions in the log of an executor's session. Its file is written soon after a task."""
        read = f"import os, json; p = 'sessions/{executor.session_id}.json'; print(read_file(p) if os.path.exists(p) else '{{}}')"
        deadline = time.monotonic() + 30
        while True:
            tasks = json.loads(executor.execute(read).output or "{}").get("tasks", [])
            if tasks or time.monotonic() > deadline:
                return [task["description"] for task in tasks]

    def test_two_sessions_of_a_customer(self) -> None:
        config = load_config()
        n = self.names(CREATE, USAGE, SESSIONS, base_config=config, config=config)
        self.assertIs(n["executor_1"].client, n["executor_2"].client)
        read = "print(open('/workspace/state/results.json').read())"
        result, output, error = n["executor_2"].execute(read)
        self.assertEqual((result.value, output, error), ("success", '{"step": 1, "result": 8}', None))
        self.assertEqual(self.descriptions(n["executor_1"]), ["Save initial state"])
        self.assertEqual(self.descriptions(n["executor_2"]), ["Resume from previous session"])
        # Another customer has other files.
        other = n["create_executor_for_customer"]("user_2", config)
        result, output, error = other.execute(read)
        self.assertEqual((result, output), (ExecutionResult.FAILURE, None))
        self.assertIn("FileNotFoundError", error)
        self.assertTrue(Path("workspaces/.sandpiper/workspaces").is_dir())
        self.assertFalse(Path("workspaces/user_12345").exists())

    def test_output_of_the_second_session(self) -> None:
        n = self.names(CREATE, SESSIONS.replace("executor_2.execute", "answer = executor_2.execute"), config=load_config())
        self.assertEqual(n["answer"].output, "Resumed from step 1")

    def test_common_pattern(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            n = self.names(
                "from sandpiper.compat import AgentHelper, FilesystemHelper, SandboxExecutor, load_config",
                PATTERN[0],
                PATTERN[1].replace("Your task description here", "Calculate 5 + 3"),
                PATTERN[2],
            )
        self.assertEqual((n["result"].value, n["error"]), ("success", None))
        self.assertIn("8", n["output"])
        self.assertEqual(self.descriptions(n["executor"]), ["Calculate 5 + 3"])
        self.assertIn(n["result"].value, said.getvalue())

    def test_common_pattern_verbatim(self) -> None:
        """The task of the documentation cannot be done, and the result says so."""
        with contextlib.redirect_stdout(io.StringIO()):
            n = self.names("from sandpiper.compat import AgentHelper, FilesystemHelper, SandboxExecutor, load_config", *PATTERN)
        self.assertEqual((n["result"].value, bool(n["error"])), ("failure", True))

    def test_agent_runs_calls_of_the_program(self) -> None:
        agent = AgentHelper(FilesystemHelper(), SandboxExecutor())
        result, output, error = agent.execute_task(
            "Calculate 5 + 3", task_specific_calls={"calculator": "print(add(a=5, b=3)['result'])"}, required_tools={"calculator": ["add"]}, verbose=False
        )
        self.assertEqual((result, output, error), (ExecutionResult.SUCCESS, "8", None))

    def test_discovery_and_selection(self) -> None:
        helper = FilesystemHelper(workspace_dir="./workspace", servers_dir="./servers", skills_dir="./skills")
        agent = AgentHelper(helper, SandboxExecutor(ExecutionConfig()))
        found = agent.discover_tools(verbose=False)
        self.assertEqual(found, {"calculator": ["add", "calculate", "multiply"], "weather": ["get_forecast", "get_weather"]})
        self.assertEqual(list(agent.select_tools_for_task("Calculate 5 + 3", verbose=False)), ["calculator"])
        self.assertIn("def add(", helper.read_tool_file("calculator", "add") or "")
        self.assertIsNone(helper.read_tool_file("calculator", "none"))
        selector = ToolSelector(similarity_threshold=1, top_k=1)
        descriptions = selector.get_tool_descriptions(helper, found)
        self.assertEqual(selector.select_tools("weather in Paris", descriptions), {"weather": ["get_weather"]})
        self.assertEqual(selector.select_tools("weather in Paris", {}), {})

    def test_handwritten_modules_are_discovered(self) -> None:
        package = Path("by_hand/loose")
        package.mkdir(parents=True)
        (package / "tools.py").write_text("def double(x: float) -> float:\n    'Double a number.'\n    return 2 * x\n")
        helper = FilesystemHelper(workspace_dir="./workspaces/hand", servers_dir="./by_hand")
        self.assertEqual(helper.list_servers(), ["calculator", "loose", "weather"])
        self.assertEqual(helper.list_tools("loose"), ["double"])
        executor = SandboxExecutor(ExecutionConfig(workspace_dir="./workspaces/hand", servers_dir="./by_hand"))
        self.assertEqual(executor.execute("from servers.loose import double\nprint(double(4))").output, "8")

    def test_files_and_skills(self) -> None:
        helper = FilesystemHelper(workspace_dir="./workspaces/ada")
        helper.save_json("a.json", {"x": [1]})
        helper.save_csv("a.csv", [{"x": 1, "y": "a,b"}])
        helper.save_skill("double_number", "def double_number(x: float) -> float:\n    return x * 2\n", description="Doubles a number")
        self.assertEqual((helper.load_json("a.json"), helper.load_csv("a.csv")), ({"x": [1]}, [{"x": "1", "y": "a,b"}]))
        self.assertEqual((helper.list_workspace_files(), helper.list_skills()), (["a.csv", "a.json"], ["double_number"]))
        executor = SandboxExecutor(ExecutionConfig(workspace_dir="./workspaces/ada"))
        self.assertEqual(executor.execute("from skills import double_number\nprint(double_number(15))").output, "30")
        helper.delete_file("a.csv")
        self.assertFalse(helper.file_exists("a.csv"))
        with self.assertRaises(FileNotFoundError):
            helper.load_text("a.csv")

    def test_statuses(self) -> None:
        executor = SandboxExecutor(ExecutionConfig(), GuardrailConfig(max_execution_time=1))
        self.assertEqual(executor.execute("while True: pass").result, ExecutionResult.TIMEOUT)
        self.assertEqual(executor.execute("from servers.calculator import multiply\nmultiply(a=1, b=2)").result, ExecutionResult.BLOCKED)
        self.assertEqual(executor.execute("x", context={"x": 3}).output, "3")


class TestConfiguration(unittest.TestCase):
    def test_workspaces_of_customers_stay_apart(self) -> None:
        with self.assertRaisesRegex(ValueError, "must not contain '..'"):
            SandboxExecutor(ExecutionConfig(workspace_dir="workspaces/a/../user_2"))
        os.environ.setdefault("SANDPIPER", sys.executable)
        a, b = (SandboxExecutor(ExecutionConfig(workspace_dir=f"customers/{uid}/workspace")) for uid in "ab")
        self.assertNotEqual(a.client._env["SANDPIPER_DATA_DIR"], b.client._env["SANDPIPER_DATA_DIR"])

    def test_network_access_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "network: \\{allow"):
            ExecutionConfig(allow_network_access=True)

    def test_code_for_each_server_is_needed(self) -> None:
        generator = CodeGenerator()
        self.assertEqual(generator.generate_imports({"a": ["b", "c"], "d": []}), ["from servers.a import b, c"])
        code = generator.generate_complete_code({"a": ["b"]}, "Do it", {"a": "b()"})
        self.assertEqual(code, "# Do it\n\nfrom servers.a import b\n\nb()\n")
        with self.assertRaisesRegex(ValueError, "there is no code for a"):
            generator.generate_complete_code({"a": ["b"]}, "Do it")

    def test_load_config(self) -> None:
        with tempfile.TemporaryDirectory() as d:
            path = Path(d) / "config.yaml"
            path.write_text(
                "execution:\n  workspace_dir: './a # b'  # comment\n  sandbox_type: microsandbox\n  allow_network_access: false\n"
                "  state:\n    workspace_dir: other\n\nguardrails:\n  strict_mode: true\n  max_execution_time: 300 # s\n  blocked_patterns: []\n"
                "mcp_servers: []\n"
            )
            config = load_config(path)
            self.assertEqual((config.execution.workspace_dir, config.guardrails.strict_mode, config.guardrails.max_execution_time), ("./a # b", True, 300))
            here = os.getcwd()
            os.chdir(d)
            try:  # a file that was not named cannot change guardrails
                self.assertEqual((load_config().workspace_dir, load_config().guardrails), ("./a # b", GuardrailConfig()))
            finally:
                os.chdir(here)
            path.write_text("execution: {workspace_dir: x}\n")
            with self.assertRaisesRegex(ValueError, "line 1: write the settings"):
                load_config(path)
            with self.assertRaises(FileNotFoundError):
                load_config(Path(d) / "none.yaml")
        self.assertEqual(compat.load_config().workspace_dir, "./workspace")
