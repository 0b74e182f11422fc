import _sandpiper


def lock_issue(number: int) -> None:
    """Locks an issue. It answers nothing.

    Returns:
        None

    Example:
        lock_issue(number=1)
    """
    _sandpiper.call("tracker", "lock_issue", {"number": number}, {})
