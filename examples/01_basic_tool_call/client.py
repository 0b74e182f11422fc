"""Finds tools, calls one, and solves the task in words."""

from sandpiper import Sandpiper

TASK = "Calculate 5 + 3"

with Sandpiper(config="sandpiper.yaml") as sandpiper:
    found = sandpiper.tools.search("calculate", max_results=1, detail_level="full")[0]
    print("found:", found.name, "-", found.raw["signature"])
    for tool in sandpiper.tools.select(TASK).tools:
        print("selected:", tool.name)
    print("called directly:", sandpiper.tools.call("calculator.calculate", {"expression": "5 + 3"})["result"])

    solved = sandpiper.task(TASK)
    print(solved.code, end="")
    print("result:", solved.result["result"])
    print(f"tools: {len(solved.tools)} of {solved.available}, {solved.share:.0%}; {solved.saved_tokens} tokens of definitions saved")
