"""Calls execute_code over HTTP of 2025-11-25 with the official Python SDK: python_resume.py URL TOKEN writes as JSON
what it returns and what the SDK logs.
"""

import asyncio
import json
import logging
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


class Kept(logging.Handler):
    """Keeps the warnings that the SDK logs."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


async def main(url, token):
    kept = Kept()
    logging.getLogger().addHandler(kept)
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
        async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
            await client.list_tools()
            result = await client.call_tool("execute_code", {"code": "import time; time.sleep(1); result = 'kept'"})
    print(json.dumps({"result": json.loads(result.content[0].text)["result"], "logged": kept.messages}))


asyncio.run(main(*sys.argv[1:]))
