"""Truncation of texts, with length and hash of the original."""

import hashlib
from collections.abc import Container
from typing import Any, Final

TEXT_LIMIT: Final = 16_384
"""Maximum characters of a string in an event (a prompt, a reasoning, a stack trace)."""
SHORT_LIMIT: Final = 256
"""Maximum characters of a name, version or code."""
HASHED_LIMIT: Final = 262_144
"""Maximum characters of a truncated text that are hashed, to limit the caller's time."""
ELLIPSIS: Final = "…"


class Cut(str):
    """Truncated text with the length and hash of the original in `about`."""

    __slots__ = ("about",)

    about: dict[str, Any]


def text(value: str, limit: int = TEXT_LIMIT) -> str:
    """Return a string cut to the limit, with lone surrogates replaced.

    A longer one is returned as `Cut`; the event then also holds its length and hash.
    """
    short = str.__len__(value) <= limit
    if short and type(value) is str and value.isascii():
        return value
    cut = shortened(value, limit)
    if short or limit <= SHORT_LIMIT:
        return cut
    marked = Cut(cut)
    marked.about = about_cut(value)
    return marked


def about_cut(value: str) -> dict[str, Any]:
    """Return length and SHA-256 of a text, or of its first `HASHED_LIMIT` characters."""
    length = str.__len__(value)
    start = str.__getitem__(value, slice(0, HASHED_LIMIT))
    digest = hashlib.sha256(start.encode("utf-8", "surrogatepass")).hexdigest()
    if length <= HASHED_LIMIT:
        return {"length": length, "sha256": digest}
    return {"length": length, "sha256": digest, "sha256_of_first": HASHED_LIMIT}


def shortened(value: str, limit: int) -> str:
    """Return a plain string cut to the limit, with lone surrogates replaced."""
    if type(value) is str and len(value) <= limit and value.isascii():
        return value
    cut = str.__getitem__(value, slice(0, limit))
    if str.__len__(value) > limit:
        cut = cut[: limit - 1] + ELLIPSIS
    if cut.isascii():
        return cut
    try:
        cut.encode()
    except UnicodeEncodeError:
        # UTF-16 joins surrogates that form a pair, which "replace" on UTF-8 would lose.
        return cut.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return cut


def distinct(name: str, taken: Container[str], numbers: dict[str, int]) -> str:
    """Return a free name: itself, or with a suffix `'`, `'2`, `'3` and so on.

    `numbers` holds the last suffix per name; without it many equal names take quadratic time.
    """
    number, found = numbers.get(name, 0), name
    while found in taken:
        number += 1
        found = f"{name}'{number if number > 1 else ''}"
    numbers[name] = number
    return found
