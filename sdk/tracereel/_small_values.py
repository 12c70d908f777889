"""Which values are a little plain data, so that C code may have them whole."""

from typing import Any, Final

MAX_INTEGER: Final = 2**63 - 1

_SMALL_ITEMS: Final = 64
_SMALL_TEXT: Final = 2_000


def is_small_and_plain(value: Any) -> bool:
    """Whether a value is a little JSON data of exactly the built-in types (compared by identity:
    a class of the user's may not like to be hashed or compared).

    Such values, the most of what agents take and give, can be handed to C code: nothing of the
    user's runs, and the work is bounded.
    """
    left = _SMALL_ITEMS
    waiting = [value]
    try:
        while waiting:
            value = waiting.pop()
            kind = type(value)
            if kind is str:
                if len(value) > _SMALL_TEXT:
                    return False
            elif kind is dict or kind is list or kind is tuple:
                left -= 1 + len(value)
                if left < 0:
                    return False
                if kind is dict:
                    for key in value:
                        if type(key) is not str or len(key) > _SMALL_TEXT:
                            return False
                    waiting += value.values()
                else:
                    waiting += value
            elif kind is int:
                if not -MAX_INTEGER <= value <= MAX_INTEGER:
                    return False
            elif value is not None and kind is not bool and kind is not float:
                return False
    except RuntimeError:  # another thread changes it
        return False
    return True
