"""Data that is kept as its JSON text, bounded and looked through as text: by C code, not value by value.

A conversation is the most of what a model call records. Its JSON is at hand or made at once; to make
objects of it, walk over them for bounds and secrets and write them down again takes far longer.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from tracereel._texts import TEXT_LIMIT

MAX_DEPTH: Final = 12
MAX_NODES: Final = 2_000

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_long_number: Final = re.compile(r"\d{19}").search
_odd_escape: Final = re.compile(r'\\[^n"tr]').search
_OTHERS: Final = bytes(code for code in range(256) if code not in b"[]{}")
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_DIGITS: Final = bytes(ord("0") if 48 <= code <= 57 else code for code in range(256))
_SMALL_ITEMS: Final = 64
_SMALL_BYTES: Final = 2_000
_TEXT: Final = frozenset({id(str)})
_LONG: Final = b"0" * 19
"""What may be an integer beyond the 63 bits that are kept."""


class Written:
    """The JSON of some data, on its way into an event, with its texts and its keys.

    In them a quote, a tab and a line's end may be written with a backslash, as in JSON; where there is
    more of that kind they are not known, and the data itself has to be looked at.
    """

    __slots__ = ("keys", "raw", "texts")

    def __init__(self, raw: Raw, texts: list[str] | None = None, keys: Sequence[str] = ()) -> None:
        self.raw = raw
        self.texts = texts
        self.keys = keys


def small(value: Any) -> Written | None:
    """A little plain data in a list, of whoever it is; null if it is more, or anything else.

    One look is enough to know that it is plain, and what its texts and keys are.
    """
    texts: list[str] = []
    keys: list[str] = []
    left = _SMALL_ITEMS
    waiting = [value]
    try:
        while waiting:
            value_here = waiting.pop()
            kind = type(value_here)
            if kind is str:
                texts.append(value_here)
            elif kind is dict:
                keys += value_here
                waiting += value_here.values()
                left -= len(value_here)
            elif kind is list or kind is tuple:
                waiting += value_here
                left -= len(value_here)
            elif kind is int or value_here is None or kind is bool or kind is float:
                continue
            else:
                return None
            left -= 1
            if left < 0:
                return None
        # Exactly text, both of them: no class of the user's is hashed or compared.
        if not _TEXT.issuperset(map(id, map(type, keys))):
            return None
        text = _encode(value)
    except Exception:  # noqa: BLE001 - a key that is no text, a lone surrogate, another thread's changes
        return None
    # As many opening brackets as that are certainly not nested deeper.
    if len(text) > _SMALL_BYTES or text.count(b"{") + text.count(b"[") > MAX_DEPTH:
        return None
    is_long = text.translate(_DIGITS).find(_LONG) >= 0
    return None if is_long else Written(Raw(text), texts, keys)


def written(data: Any) -> Written | None:
    """Plain data that is nobody else's, as its JSON; null where it is more than an event may have."""
    found = small(data)
    if found is not None:
        return found
    try:
        text = _encode(data)
    except Exception:  # noqa: BLE001 - a lone surrogate, a number without end: others know what to do
        return None
    return taken(text)


def taken(text: bytes) -> Written | None:
    """JSON as it came; null where it may be more than an event may have, in any respect."""
    if len(text) > TEXT_LIMIT:
        return None
    try:
        if b"\n" in text:  # an event is one line
            text = msgspec.json.format(text, indent=-1)
        shown, is_odd = text.decode(), False
    except (UnicodeDecodeError, msgspec.DecodeError):
        return None
    if "\\" in shown:
        is_odd = _odd_escape(shown) is not None
        if is_odd:
            shown = shown.replace("\\\\", "")
        # Every quote that is left begins or ends a text; looking for secrets takes either quote.
        shown = shown.replace('\\"', "\\'")
    pieces = shown.split('"')
    outside = "".join(pieces[::2])
    nodes = outside.count(",") + outside.count("[") + outside.count("{")
    if nodes > MAX_NODES or not _is_flat(outside) or _long_number(outside):
        return None
    if is_odd:
        return Written(Raw(text))
    texts = pieces[1::2]
    keys = [name for name, after in zip(texts, pieces[2::2], strict=True) if ":" in after]
    return Written(Raw(text), texts, keys)


def _is_flat(outside: str) -> bool:
    """Whether the brackets in a JSON text without its strings are not nested too deep."""
    if outside.count("[") + outside.count("{") <= MAX_DEPTH:
        return True
    brackets = outside.encode().translate(_SQUARE, _OTHERS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return True
    return False


def read_all(event: dict[str, Any]) -> dict[str, Any]:
    """The same event, with data where it had the JSON of it."""
    for name, value in event.items():
        if type(value) is Raw:
            event[name] = _decode(value)
        elif type(value) is Written:
            event[name] = _decode(value.raw)
    return event
