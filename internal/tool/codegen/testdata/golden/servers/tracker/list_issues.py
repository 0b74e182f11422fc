import _sandpiper
from typing import Literal, NotRequired, TypedDict


class Issue(TypedDict):
    number: int
    title: str
    labels: NotRequired[list[str]]
    closed_at: NotRequired[str | None]


class Result(TypedDict):
    issues: list[Issue]
    total: NotRequired[int]


def list_issues(
    owner: str,
    repo: str,
    state: Literal["open", "closed", "all"] = "open",
    labels: list[str] | None = None,
    per_page: int = 30,
    since: str | None = None,
) -> Result:
    """Lists the issues of a project. Newest first.

    Args:
        owner: Who owns the project.
        repo: Name of the project.
        per_page: Issues on a page. At least 1, at most 100.
        since: Format date-time.

    Returns:
        {"issues": list[{"number": int, "title": str, "labels?": list[str], "closed_at?": str | None}], "total?": int}

    Example:
        list_issues(owner="owner", repo="repo")
    """
    return _sandpiper.call(
        "tracker",
        "list_issues",
        {"owner": owner, "repo": repo},
        {"state": state, "labels": labels, "per_page": per_page, "since": since},
    )
