"""A fake of the runtime's module _sandpiper: each function returns its arguments."""

from typing import Any, TypeVar

T = TypeVar("T")


def call(server: str, tool: str, required: dict[str, Any], optional: dict[str, Any]) -> T:  # type: ignore[type-var]
    args = required | {name: value for name, value in optional.items() if value is not None}
    return {"server": server, "tool": tool, "args": args}  # type: ignore[return-value]


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
