# Task: Calculate 5 + 3
# Finds a tool and calls it. Each tool is a file, so that a model reads only what it needs.
from pathlib import Path

from servers.calculator import calculate

for server in sorted(p for p in Path("servers").iterdir() if p.is_dir()):
    print(server.name + ":", *sorted(f.stem for f in server.glob("*.py") if f.stem not in ("__init__", "aio")))
print(get_tool_definition("calculator.calculate")["signature"])

result = calculate(expression="5 + 3")
