"""Which values are plain JSON data, so that C code may write them down as they are.

Most of what agents pass is. Looking at the types of a whole container costs one step in C; only
containers inside it are looked at one by one.
"""

import math
from collections.abc import Collection
from types import NoneType
from typing import Any, Final

from tracereel._secrets import is_sensitive_key, suspicious

MAX_CONTAINERS: Final = 2_000
"""A value with more is left to the codec, which has bounds of its own."""
_MAX_KEYS: Final = 4096
_LEAVES: Final = frozenset({str, int, float, bool, NoneType})
_KNOWN: Final = _LEAVES | {list, dict}
_TEXT: Final = {str}
_TAG: Final = "$"

_keys: Final[set[str]] = set()
"""Keys that were looked at: texts that are no tag and do not say that a secret follows."""


def is_plain(value: Any) -> bool:
    """Whether a value is nothing but exact lists, dictionaries, texts, finite numbers, truths and nulls.

    No key of it names a secret. Integers of more than 64 bits and texts that are no Unicode are for whoever
    writes it to refuse. May raise, for values that another thread changes or that do not like to be hashed.
    """
    kind = type(value)
    if kind is not dict and kind is not list:
        return kind in _LEAVES and (kind is not float or math.isfinite(value))
    waiting: list[Any] = [value]
    for each in waiting:  # grows while it is gone through
        if type(each) is dict:
            # A text of a class of its own may be equal to a key that is known.
            known = each.keys() <= _keys and set(map(type, each)) <= _TEXT
            if not known and not _admit(each):
                return False
            inside: Collection[Any] = each.values()
        else:
            inside = each
        kinds = set(map(type, inside))
        if not kinds <= _LEAVES:
            if not kinds <= _KNOWN:
                return False
            waiting += [item for item in inside if type(item) is dict or type(item) is list]
            if len(waiting) > MAX_CONTAINERS:
                return False
        if float in kinds and not _are_finite(inside, only=len(kinds) == 1):
            return False
    return True


def _admit(found: dict[Any, Any]) -> bool:
    """Whether all keys are good; those that are will be known."""
    for key in found:
        if type(key) is not str or key.startswith(_TAG) or is_sensitive_key(key) or suspicious(key):
            return False
    if len(_keys) + len(found) > _MAX_KEYS:
        _keys.clear()
    if len(found) <= _MAX_KEYS:
        _keys.update(key for key in found if len(key) <= 64)
    return True


def _are_finite(values: Collection[Any], *, only: bool) -> bool:
    if only:
        # A sum that overflows says no too, and the codec looks again.
        return math.isfinite(sum(values))
    return all(math.isfinite(item) for item in values if type(item) is float)
