import _sandpiper
from typing import Any


def nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_230b0774(
    ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp_67f102b9: str,
) -> Any:
    """Has a long name. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much. Says much ...

    Args:
        ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp_67f102b9: Sent as "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp ...".

    Returns:
        Any: the server does not declare a type.

    Example:
        nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_230b0774(ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp_67f102b9="pppppppppppppppppppppppppppppppppppp ...")
    """
    return _sandpiper.call(
        "evil\"\"\"\nimport os",
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        {
            "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp": ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp_67f102b9,
        },
        {},
    )
