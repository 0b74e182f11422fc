"""A fake of the runtime's module _sandpiper: each function returns its arguments."""

from typing import Any, TypeVar

T = TypeVar("T")


class _Absent:
    def __repr__(self) -> str:
        return "..."


absent: Any = _Absent()


def call(server: str, tool: str, required: dict[str, Any], optional: dict[str, Any]) -> T:  # type: ignore[type-var]
    args = {name: value for name, value in required.items() if value is not absent}
    args |= {name: value for name, value in optional.items() if value is not None}
    return {"server": server, "tool": tool, "args": args}  # type: ignore[return-value]


async def in_thread(function: Any, *args: Any, **kwargs: Any) -> Any:
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)


def why_missing(server: str, name: str = "") -> str:
    return ""


def await_tools(server: str) -> None:
    pass


def list_resources(server: str) -> list[dict[str, Any]]:
    return [{"uri": "test://" + server}]


def list_resource_templates(server: str) -> list[dict[str, Any]]:
    return [{"uriTemplate": "test://{name}", "server": server}]


def read_resource(server: str, uri: str) -> Any:
    return [server, uri]


def list_prompts(server: str) -> list[dict[str, Any]]:
    return [{"name": server}]


def get_prompt(server: str, name: str, args: dict[str, str]) -> Any:
    return [server, name, args]
