"""Texts cut to a limit, with word of what they were."""

import hashlib
from typing import Any, Final

TEXT_LIMIT: Final = 16_384
"""Longest string kept in an event (a prompt, a reasoning, a stack trace), in characters."""
SHORT_LIMIT: Final = 256
"""Longest name, version or code."""
HASHED_LIMIT: Final = 262_144
"""Characters of a cut text that are hashed at most: a caller's thread is not for more."""
ELLIPSIS: Final = "…"


class Cut(str):
    """A text that was cut to its limit, with word of what it was."""

    __slots__ = ("about",)

    about: dict[str, Any]


def text(value: str, limit: int = TEXT_LIMIT) -> str:
    """A string cut to the limit, with lone surrogates replaced.

    A long one comes back as `Cut`: the event then says beside it how long it was, and its hash.
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
    """Length in characters and SHA-256 of a text that is cut; of its beginning if it is huge."""
    length = str.__len__(value)
    start = str.__getitem__(value, slice(0, HASHED_LIMIT))
    digest = hashlib.sha256(start.encode("utf-8", "surrogatepass")).hexdigest()
    if length <= HASHED_LIMIT:
        return {"length": length, "sha256": digest}
    return {"length": length, "sha256": digest, "sha256_of_first": HASHED_LIMIT}


def shortened(value: str, limit: int) -> str:
    """A string cut to the limit, with lone surrogates replaced, and no word of what it was."""
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
