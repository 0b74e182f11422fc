"""Sends code that handles the errors of tools, and handles those of code."""

import json
from pathlib import Path

from sandpiper import ExecutionError, Sandpiper

TASK = "Get the forecast of each city in a file, calculate the price of a tour and write the plans to a file"

with Sandpiper(config="sandpiper.yaml") as sandpiper:
    try:
        sandpiper.execute("from servers import weather; weather.get_forecast(city='Oslo', days=30)")
    except ExecutionError as e:
        print("error:", e)
    print(json.dumps(sandpiper.execute(Path("code.py").read_text()).result, indent=2))

    selected = sandpiper.tools.select(TASK)
    print(f"tools: {len(selected.tools)} of {selected.available}, {selected.share:.0%}")
    tokens = sandpiper.stats()["tokens"]
    print(f"tokens: {tokens['spent']} instead of {tokens['direct']}, {tokens['saved']:.1%} saved")
