"""Ids and times that are new in every run, so that a comparison does not take them for differences."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

_FRESH: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"(?P<uuid>[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|(?P<id>(?:call|toolu|tooluse|fc|msg|resp|rs|chatcmpl|run|lc_run|req|evt|trc|exec)[-_]{1,2}"
    r"(?=[0-9A-Za-z_-]{0,63}\d)[0-9A-Za-z_-]{6,64})"
    r"|(?P<hex>(?=[0-9a-f]{0,63}\d)(?=[0-9a-f]{0,63}[a-f])[0-9a-f]{16,64})"
    r")(?![0-9A-Za-z])"
)
"""Ids of messages, calls and runs, UUIDs, and times with seconds; a day or an hour is content."""
MAX_PAIRS: Final = 200
"""Ids of one difference that are returned."""
_TIMES: Final = frozenset({"created", "created_at", "timestamp", "completed_at", "started_at"})
_EPOCH: Final = 1_000_000_000
"""Numbers above are times in seconds or finer units, if their name says so."""


def without_fresh(value: Any) -> Any:
    """Return a value with marks in place of ids and times that are new in every run."""
    if isinstance(value, str):
        return _FRESH.sub(lambda found: f"<{found.lastgroup}>", value)
    if isinstance(value, dict):
        return {without_fresh(name): _field(name, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_fresh(each) for each in value]
    return value


def _field(name: Any, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and name in _TIMES and value > _EPOCH:
        return "<time>"
    return without_fresh(value)


class FreshIds:
    """Ids of two runs that correspond: each id of one to one id of the other."""

    def __init__(self) -> None:
        self._to: dict[str, str] = {}
        self._from: dict[str, str] = {}

    def agree(self, a: Any, b: Any) -> bool:
        """Whether two values, equal without fresh ids, refer to the same things."""
        return all(
            self._to.setdefault(one, other) == other and self._from.setdefault(other, one) == one
            for one, other in zip(_ids(a), _ids(b), strict=False)
        )


def fresh_pairs(a: Any, b: Any) -> list[tuple[str, str]]:
    """Pair the ids and times of one value with those of the other.

    Of each kind, if both have as many; readers put the first in place of the second.
    """
    left, right = (_by_kind(_found(value)) for value in (a, b))
    pairs: dict[str, str] = {}
    for kind in left:
        if len(left[kind]) == len(right.get(kind, ())):
            for one, other in zip(left[kind], right[kind], strict=True):
                pairs.setdefault(other, one)
    return [(one, other) for other, one in pairs.items() if one != other][:MAX_PAIRS]


def _by_kind(found: Iterable[re.Match[str]]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for each in found:
        kinds.setdefault(each.lastgroup or "", []).append(each[0])
    return kinds


def _ids(value: Any) -> list[str]:
    return [each[0] for each in _found(value) if each.lastgroup != "time"]


def _found(value: Any) -> Iterator[re.Match[str]]:
    """Yield ids and times in the texts of a value; objects by the order of their keys."""
    if isinstance(value, str):
        yield from _FRESH.finditer(value)
    elif isinstance(value, dict):
        for name in sorted(value, key=without_fresh):
            yield from _FRESH.finditer(name)
            yield from _found(value[name])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _found(each)
