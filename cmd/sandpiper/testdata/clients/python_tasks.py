"""Drives tasks of the protocol with the official Python SDK: python_tasks.py URL TOKEN writes as JSON what came of it.

The SDK has the frame of extensions and leaves that of tasks to its users.
"""

import asyncio
import json
import sys
from typing import Any, Literal

import httpx2
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ElicitResult, Request, Result
from pydantic import TypeAdapter


ANSWER = TypeAdapter(dict[str, Any])


class Task(Result):
    result_type: Literal["task"]
    task_id: str
    status: str


class TaskRequest(Request[dict[str, Any], str]):
    name_param = "taskId"


async def request(session, method, task_id, **more):
    return await session.send_request(TaskRequest(method=method, params={"taskId": task_id, **more}), ANSWER)


async def until(session, task_id, *statuses):
    while True:
        task = await request(session, "tasks/get", task_id)
        if task["status"] in statuses:
            return task
        await asyncio.sleep(0.05)


class Tasks(ClientExtension):
    """Waits for calls that are answered by a task."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.created = []

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task, ctx):
        self.created.append(task.status)
        ended = await until(ctx.session, task.task_id, "completed", "failed", "cancelled")
        return CallToolResult.model_validate(ended["result"])


async def elicit(context, params):
    return ElicitResult(action="decline")


def text(result):
    return json.loads(result.content[0].text)


async def main(url, token):
    tasks, came = Tasks(), {}
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="2026-07-28", extensions=[tasks], elicitation_callback=elicit) as client:

            async def dispatch(code):
                return text(await client.call_tool("dispatch_background_task", {"code": code}))["execution_id"]

            asks = await dispatch("result = [ask('Which colour?'), sleep_for(2)]")
            asked = await until(client.session, asks, "input_required")
            came["asked"] = [r["params"]["message"] for r in asked["inputRequests"].values()]
            answer = {"q1": {"action": "accept", "content": {"answer": "blue"}}}
            await request(client.session, "tasks/update", asks, inputResponses=answer)
            done = await until(client.session, asks, "completed")
            came["result"] = text(CallToolResult.model_validate(done["result"]))["result"]

            endless = await dispatch("while True: pass")
            await until(client.session, endless, "working")
            await request(client.session, "tasks/cancel", endless)
            came["cancelled"] = (await until(client.session, endless, "cancelled"))["status"]
            try:
                await request(client.session, "tasks/get", "exec_none")
            except MCPError as e:
                came["unknown"] = e.error.code
            came["call"] = text(await client.call_tool("execute_code", {"code": "import time; time.sleep(4); result = 'late'"}))["result"]
            came["tasks"] = tasks.created
    print(json.dumps(came))


asyncio.run(main(*sys.argv[1:]))
