"""List cursors: the position of the last entry, bound to the query that produced it."""

import base64
import binascii
import hashlib
from dataclasses import dataclass

import msgspec

from tracereel_collector.errors import BadRequestError


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """Last entry returned: its sort value and id."""

    value: int
    name: str


def digest(question: object) -> str:
    """Return a short digest that identifies a query."""
    return hashlib.sha256(msgspec.json.encode(question, order="sorted")).hexdigest()[:12]


def encode(place: CursorPosition, question: str) -> str:
    """Return the cursor that continues after a position."""
    data = msgspec.json.encode([question, place.value, place.name])
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(cursor: str, question: str) -> CursorPosition:
    """Return the position of a cursor.

    Raises:
        BadRequestError: the cursor is invalid or belongs to another query.
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
    return CursorPosition(value, name)
