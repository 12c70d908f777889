"""Truncation of texts, with length and hash of the original."""

import hashlib
from collections.abc import Callable, Container
from typing import Any, Final

TEXT_LIMIT: Final = 16_384
"""Maximum characters of a string in an event (a prompt, a reasoning, a stack trace)."""
SHORT_LIMIT: Final = 256
"""Maximum characters of a name, version or code."""
HASHED_LIMIT: Final = 262_144
"""Maximum characters of a truncated text that are hashed, to limit the caller's time."""
ELLIPSIS: Final = "…"
LEAD: Final = TEXT_LIMIT
"""Characters before the last part of a text in which the name or begin of a secret is found."""
_MARK_BYTES: Final = 48
"""Bytes for the mark in place of removed text."""


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
    if short or limit <= SHORT_LIMIT:
        return shortened(value, limit)
    kept = limit - len(removed_mark(str.__len__(value)))
    cut = clean(str.__getitem__(value, slice(0, kept)))
    marked = Cut(cut + removed_mark(str.__len__(value) - kept))
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
    return clean(cut)


def clean(value: str) -> str:
    """Return a plain string with lone surrogates replaced."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        # UTF-16 joins surrogates that form a pair, which "replace" on UTF-8 would lose.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def removed_mark(characters: int) -> str:
    """Return the text in place of removed ones."""
    return f"…[{characters} characters removed]…"


def without_middle(value: str, limit: int, redact: Callable[[str], str]) -> str:
    """Return the first and last part of a text, in at most `limit` bytes, with a mark between them."""
    half = half_of(limit)
    last = str.__getitem__(value, slice(-half - LEAD, None))
    first = str.__getitem__(value, slice(0, half))
    return joined_ends(first, last, str.__len__(value), limit, redact)


def joined_ends(
    first: str, last: str, length: int, limit: int, redact: Callable[[str], str]
) -> str:
    """Return the ends of a text of this length, in at most `limit` bytes, with a mark between them.

    `last` begins `LEAD` characters earlier than needed and is redacted together with them: the name
    of a secret may be removed, its value not.
    """
    half = half_of(limit)
    first = _bytes_of(first[:half])[:half].decode("utf-8", "ignore")
    last = _bytes_of(redact(clean(last))[-half:])[-half:].decode("utf-8", "ignore")
    return f"{first}{removed_mark(length - len(first) - len(last))}{last}"


def half_of(limit: int) -> int:
    """Return the bytes of each end of a text whose middle is removed."""
    return max((limit - _MARK_BYTES) // 2, 8)


def _bytes_of(value: str) -> bytes:
    return clean(value).encode()


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
