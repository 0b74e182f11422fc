"""Resumes work in a second process: a state, files and a session's log outlive the first."""

import json
from pathlib import Path

from sandpiper import Sandpiper

TASK = "Get the forecast of some cities and keep notes in the memory graph"

with Sandpiper(config="sandpiper.yaml") as sandpiper:
    session = sandpiper.session("weather")
    print(json.dumps(session.execute(Path("code_1.py").read_text()).result, indent=2))
    print("variables live as long as the session:", session.execute("len(CITIES)").result)

with Sandpiper(config="sandpiper.yaml") as sandpiper:  # a new server process
    print(json.dumps(sandpiper.execute(Path("code_2.py").read_text()).result, indent=2))
    print(sandpiper.files.read_text("report.csv").splitlines()[0])

    selected = sandpiper.tools.select(TASK)
    print(f"tools: {len(selected.tools)} of {selected.available}, {selected.share:.0%}")
    tokens = sandpiper.stats()["tokens"]
    print(f"tokens: {tokens['spent']} instead of {tokens['direct']}, {tokens['saved']:.1%} saved")
