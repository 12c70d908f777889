"""Allow list of functions; functions that have not been reviewed are refused.

Not listed are functions that access files, the network, dictionaries or other tables, reveal the machine
or its settings, sleep, or can run for minutes in a single call that no limit interrupts.
"""

from functools import cache
from importlib import resources
from typing import Final

COMBINATORS: Final = (
    *("if", "array", "map", "distinct", "ordefault", "ornull", "resample", "foreach"),
    *("state", "merge", "simplestate", "mergestate", "argmin", "argmax"),
)
"""Suffixes (combinators) that an aggregate function name may have."""
_MAX_COMBINATORS: Final = 6


@cache
def names() -> frozenset[str]:
    """Return all allowed names in lower case."""
    return frozenset(resources.files(__package__).joinpath("functions.txt").read_text().split())


def may_call(name: str) -> bool:
    """Return whether a function may be called, with or without combinators."""
    return _known(name.lower(), _MAX_COMBINATORS)


def _known(name: str, left: int) -> bool:
    if name in names():
        return True
    return left > 0 and any(
        _known(name.removesuffix(each), left - 1) for each in COMBINATORS if name.endswith(each)
    )
