"""Sends code that reads 10,000 rows and returns a dozen lines."""

import json
from pathlib import Path

from sandpiper import Sandpiper

TASK = "Query the paid orders in the database and group them by region"

with Sandpiper(config="sandpiper.yaml") as sandpiper:
    print(json.dumps(sandpiper.execute(Path("code.py").read_text()).result, indent=2))

    selected = sandpiper.tools.select(TASK)
    print(f"tools: {len(selected.tools)} of {selected.available}, {selected.share:.0%}")
    tokens = sandpiper.stats()["tokens"]
    print(f"tokens: {tokens['spent']} instead of {tokens['direct']}, {tokens['saved']:.1%} saved")
