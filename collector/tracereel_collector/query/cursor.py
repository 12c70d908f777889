"""Where a list goes on: the place of its last entry, as a text that only fits the same question."""

import base64
import binascii
import hashlib
from dataclasses import dataclass

import msgspec

from tracereel_collector.errors import BadRequestError


@dataclass(frozen=True, slots=True)
class Place:
    """The last entry that was given out: what it was sorted by, and its id."""

    value: int
    name: str


def digest(question: object) -> str:
    """A short text that is the same for the same question."""
    return hashlib.sha256(msgspec.json.encode(question, order="sorted")).hexdigest()[:12]


def encode(place: Place, question: str) -> str:
    """The cursor that continues after a place."""
    data = msgspec.json.encode([question, place.value, place.name])
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(cursor: str, question: str) -> Place:
    """The place a cursor stands for.

    Raises:
        BadRequestError: it is none of ours, or of another question.
    """
    try:
        data = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        asked, value, name = msgspec.json.decode(data, type=tuple[str, int, str])
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise BadRequestError(
            f"cursor: {cursor[:40]!r} is none; expected `next` of an earlier answer"
        ) from error
    if asked != question:
        raise BadRequestError(
            "cursor: it belongs to a list with other filters or another order",
            hint="keep every parameter but `limit` as it was, or begin without a cursor",
        )
    if not -(2**63) <= value < 2**63:
        raise BadRequestError("cursor: it is none of ours")
    return Place(value, name)
