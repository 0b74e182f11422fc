import _sandpiper
from typing import Any


def create_issue_2(
    title: str,
    body: str | None = None,
    assignees: list[str] | None = None,
    milestone: int | None = _sandpiper.absent,
) -> Any:
    """Creates an issue.

    Args:
        assignees: At most 10 items.

    Returns:
        Any: the server does not declare a type.

    Example:
        create_issue_2(title="title")
    """
    return _sandpiper.call(
        "tracker",
        "create-issue",
        {"title": title, "milestone": milestone},
        {"body": body, "assignees": assignees},
    )
