"""Which values are a little plain data, so that C code may have them whole."""

import re
from typing import Any, Final

import msgspec

MAX_INTEGER: Final = 2**63 - 1

_SMALL_ITEMS: Final = 64
_SMALL_TEXT: Final = 2_000
_SMALL_KEY: Final = 200
_SMALL_DEPTH: Final = 12
_SMALL_BYTES: Final = 32_768
_LONG: Final = re.compile(rb"\d{19}")
"""What may be an integer beyond `MAX_INTEGER`."""
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


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
                        if type(key) is not str or len(key) > _SMALL_KEY:
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


def copy(value: Any) -> Any:
    """A little plain data once more, as JSON has it: lists for tuples, null for NaN; null if it is more."""
    if type(value) is str and len(value) <= _SMALL_TEXT and value.isascii():
        return value
    text = _text(value)
    return None if text is None else _decode(text)


def portrait(value: Any, written: bytes | None = None) -> tuple[int, Any, str] | None:
    """The size of a little plain data, the data as JSON has it, and its `repr`; null if it is more.

    `written` is its JSON where somebody has looked at it and written it down just now.
    """
    if written is None:
        text = _text(value)
        return None if text is None else (len(text), _decode(text), repr(value))
    brackets = written.count(b"{") + written.count(b"[")
    if len(written) > _SMALL_TEXT or not 0 < brackets <= _SMALL_DEPTH or _LONG.search(written):
        return None
    data = _decode(written)
    return len(written), data, repr(data)


def _text(value: Any) -> bytes | None:
    kind = type(value)
    if not (kind is dict or kind is list or kind is tuple) or not is_small_and_plain(value):
        return None
    try:
        text = _encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return None
    # As many opening brackets as that are certainly not nested deeper.
    if len(text) > _SMALL_BYTES or text.count(b"{") + text.count(b"[") > _SMALL_DEPTH:
        return None
    return text
