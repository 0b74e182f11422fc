"""Serves over MCP a fastmcp proxy of the servers in the argument, in code mode without its limit of calls.

The servers stay connected: a proxy of a configuration starts all of them again for each call.
"""

import asyncio
import contextlib
import json
import sys

from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy


async def main():
    server = FastMCP("peers")
    async with contextlib.AsyncExitStack() as connections:
        for name, program in json.loads(sys.argv[1])["mcpServers"].items():
            client = await connections.enter_async_context(Client({"mcpServers": {name: program}}))
            server.mount(create_proxy(client), namespace=name)
        server.add_transform(CodeMode(max_tool_calls=None))
        await server.run_async(show_banner=False)


asyncio.run(main())
