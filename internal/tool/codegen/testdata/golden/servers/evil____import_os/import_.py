import _sandpiper
from typing import Any


def import_(
    lambda_: str | None = None,
    None_: str | None = None,
    print: str | None = None,
    self: str | None = None,
    args: str | None = None,
    kwargs: str | None = None,
    more: str | None = None,
    **more_: Any,
) -> Any:
    """def f(): pass

    Args:
        lambda_: Sent as "lambda".
        None_: Sent as "None".

    Returns:
        Any: the server does not declare a type.

    Example:
        import_()
    """
    return _sandpiper.call(
        "evil\"\"\"\nimport os",
        "import",
        {**more_},
        {
            "lambda": lambda_,
            "None": None_,
            "print": print,
            "self": self,
            "args": args,
            "kwargs": kwargs,
            "more": more,
        },
    )
