from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import cast

import areas
from sandpiper import AsyncSandpiper, RequestError, Sandpiper
from support import Case


class TestStdio(areas.Areas):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.client = Sandpiper(config=cls.config, data_dir=cls.data_dir)
        cls.addClassCleanup(cls.client.close)


class TestHTTP(areas.Areas):
    restores = False

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.client = Sandpiper(url=cls.serve("")[0])
        cls.addClassCleanup(cls.client.close)


class TestAsync(areas.Areas):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.client = areas.waiting(AsyncSandpiper(config=cls.config, data_dir=cls.data_dir))
        cls.addClassCleanup(cast(areas.Waiting, cls.client).end)


class TestApproval(Case):
    def test_schedule_waits_for_a_person(self) -> None:
        config = self.dir / "ask.yaml"
        config.write_text("pii: {mode: 'off'}\n")
        with Sandpiper(config=config, data_dir=self.data_dir) as client:
            client.skills.save("report", "def report(): return 1")
            with self.assertRaisesRegex(RequestError, "approvals approve"):
                client.schedules.create("daily", skill="report", every="24h")
            self.assertEqual(client.schedules.list(), [])


class TestReadme(Case):
    def test_program_prints_what_its_comments_say(self) -> None:
        readme = (Path(__file__).parents[1] / "README.md").read_text()
        program = readme.split("```python\n")[1].split("```")[0]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(program, {})
        wanted = re.findall(r"print\(.*\) +# (.*?)(?:, by .*)?$", program, re.MULTILINE)
        self.assertEqual((len(wanted), said.getvalue().splitlines()), (5, wanted))
