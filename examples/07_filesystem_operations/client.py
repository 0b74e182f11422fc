"""Sends code that works with files, and reads and writes those of the workspace."""

import json
from pathlib import Path

from sandpiper import Sandpiper

TASK = "Read the CSV files of a directory, sum their amounts and write the totals to a file"

with Sandpiper(config="sandpiper.yaml") as sandpiper:
    print(json.dumps(sandpiper.execute(Path("code.py").read_text()).result, indent=2))
    print("travel.csv has", len(sandpiper.files.read_text("receipts/travel.csv").splitlines()), "lines")
    sandpiper.files.write("notes.txt", "Receipts of June\n")
    print("workspace:", *sandpiper.files.list())

    selected = sandpiper.tools.select(TASK)
    print(f"tools: {len(selected.tools)} of {selected.available}, {selected.share:.0%}")
    tokens = sandpiper.stats()["tokens"]
    print(f"tokens: {tokens['spent']} instead of {tokens['direct']}, {tokens['saved']:.1%} saved")
