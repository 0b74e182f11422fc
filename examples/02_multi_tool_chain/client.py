"""Sends code that chains the tools of four servers."""

import json
from pathlib import Path

from sandpiper import Sandpiper

TASK = "Read the deliveries from a file, query them in the database, get the forecast of each city and calculate the price"

with Sandpiper(config="sandpiper.yaml") as sandpiper:
    print(json.dumps(sandpiper.execute(Path("code.py").read_text()).result, indent=2))

    selected = sandpiper.tools.select(TASK)
    print(f"tools: {len(selected.tools)} of {selected.available}, {selected.share:.0%}")
    tokens = sandpiper.stats()["tokens"]
    print(f"tokens: {tokens['spent']} instead of {tokens['direct']}, {tokens['saved']:.1%} saved")
