"""Saves a skill and uses it by name."""

import json
from pathlib import Path

from sandpiper import Sandpiper

TASK = "Read the sales of a year from a file and sum the amount by region"

with Sandpiper(config="sandpiper.yaml") as sandpiper:
    print(json.dumps(sandpiper.execute(Path("code_1.py").read_text()).result, indent=2))
    for skill in sandpiper.skills.list():
        print(f"{skill.name}, version {skill.version}: {skill.description}")
    print(json.dumps(sandpiper.execute(Path("code_2.py").read_text()).result, indent=2))

    selected = sandpiper.tools.select(TASK)
    print(f"tools: {len(selected.tools)} of {selected.available}, {selected.share:.0%}")
    tokens = sandpiper.stats()["tokens"]
    print(f"tokens: {tokens['spent']} instead of {tokens['direct']}, {tokens['saved']:.1%} saved")
