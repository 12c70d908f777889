"""Which functions may be called: a list of names, so that one nobody has looked at is refused.

Left out is what reaches files, the network, dictionaries or other tables, what tells of the machine or
its settings, what waits, and what can work for minutes in a single call that no limit interrupts.
"""

from functools import cache
from importlib import resources
from typing import Final

COMBINATORS: Final = (
    *("if", "array", "map", "distinct", "ordefault", "ornull", "resample", "foreach"),
    *("state", "merge", "simplestate", "mergestate", "argmin", "argmax"),
)
"""What the name of an aggregate function may end with."""
_MAX_COMBINATORS: Final = 6


@cache
def names() -> frozenset[str]:
    """All of them, in lower case."""
    return frozenset(resources.files(__package__).joinpath("functions.txt").read_text().split())


def may_call(name: str) -> bool:
    """Whether a function may be called, with or without combinators behind its name."""
    return _known(name.lower(), _MAX_COMBINATORS)


def _known(name: str, left: int) -> bool:
    if name in names():
        return True
    return left > 0 and any(
        _known(name.removesuffix(each), left - 1) for each in COMBINATORS if name.endswith(each)
    )
