"""What the tests share. SANDPIPER names the program, EXAMPLE_SERVERS the directory of the example servers."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

SERVERS = os.environ.get("EXAMPLE_SERVERS", "")
CONFIG = """
servers:
  calculator: {{command: "{0}/calculator"}}
  weather: {{command: "{0}/weather"}}
policy:
  rules:
    - {{name: confirm, tool: calculator.multiply, decision: ask, reason: this is a test}}
    - {{name: schedules, tool: sandpiper.create_schedule, decision: allow}}
"""


class Case(unittest.TestCase):
    """Tests with a configuration and a data directory, in an empty working directory."""

    dir: Path
    config: Path
    data_dir: Path

    @classmethod
    def setUpClass(cls) -> None:
        if not os.environ.get("SANDPIPER") or not SERVERS:
            raise unittest.SkipTest("set SANDPIPER and EXAMPLE_SERVERS")
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = Path(temporary.name)
        cls.config = cls.dir / "sandpiper.yaml"
        cls.config.write_text(CONFIG.format(SERVERS))
        cls.data_dir = cls.dir / "data"
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(cls.dir)

    @classmethod
    def serve(cls, config: str) -> tuple[str, subprocess.Popen[bytes]]:
        """Start a server over HTTP and return its URL."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        path = cls.dir / f"{port}.yaml"
        path.write_text(CONFIG.format(SERVERS) + config)
        server = subprocess.Popen(
            [os.environ["SANDPIPER"], "--config", str(path), "serve", "--http", f"127.0.0.1:{port}", "--profile", "full"],
            env={**os.environ, "SANDPIPER_DATA_DIR": str(cls.data_dir)},
            stderr=subprocess.DEVNULL,
        )
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.terminate)
        deadline = time.monotonic() + 120
        while server.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return f"http://127.0.0.1:{port}/mcp", server
            time.sleep(0.05)
        raise AssertionError(f"the server did not start; it ended with {server.poll()}")
