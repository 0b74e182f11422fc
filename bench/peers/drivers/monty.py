"""Runs the code of each line in Monty: a new session in a worker process of the pool."""

import json
import sys

from pydantic_monty import Monty, MountDir

folder = sys.argv[1]
with Monty() as pool:
    for line in sys.stdin:
        with pool.checkout() as session:
            mount = MountDir(host_path=folder, virtual_path="/data", mode="read-only")
            value = session.feed_run(json.loads(line), mount=mount)
        print(json.dumps(value), flush=True)
