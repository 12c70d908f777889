"""Heartbeats at the door: one or an array of them, checked against the contract and written anew."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tracereel.heartbeats import Heartbeat
from tracereel_collector.errors import BadRequestError, TooLargeError
from tracereel_collector.ingest.check import MAX_YEAR, MIN_YEAR, Rejection
from tracereel_collector.ingest.explain import explain_field, json_name

MAX_BYTES = 1024 * 1024
MAX_HEARTBEATS = 1_000
_SHAPES = "expected one heartbeat as a JSON object, or a JSON array of them"


@dataclass(frozen=True, slots=True)
class CheckedHeartbeats:
    """The lines that may enter, and why the others may not."""

    lines: list[bytes]
    rejected: list[Rejection]


def check_heartbeats(data: bytes) -> CheckedHeartbeats:
    """Sort the heartbeats of a body into those that enter and those that do not.

    Raises:
        BadRequestError: the body has neither of the two shapes.
        TooLargeError: it is too large or holds too many.
    """
    lines: list[bytes] = []
    rejected: list[Rejection] = []
    for index, value in enumerate(_split(data)):
        try:
            lines.append(msgspec.json.encode(_typed(value)))
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            known = value if isinstance(value, dict) else {}
            reason = explain_field(str(error), known) if known else _not_an_object(value)
            name = known.get("emitter_id")
            rejected.append(Rejection(index, name if isinstance(name, str) else None, reason))
    return CheckedHeartbeats(lines, rejected)


def _typed(value: Any) -> Heartbeat:
    beat = msgspec.convert(value, Heartbeat, strict=True)
    for name in ("sent_at", "started_at"):
        moment = getattr(beat, name)
        if moment is not None and not MIN_YEAR <= moment.year <= MAX_YEAR:
            raise msgspec.ValidationError(
                f"Expected a year from {MIN_YEAR} to {MAX_YEAR} - at `$.{name}`"
            )
    return beat


def _not_an_object(value: Any) -> str:
    return f"expected a JSON object, got {json_name(value) if value != {} else 'an empty one'}"


def _split(data: bytes) -> list[Any]:
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"the body has {len(data)} bytes; at most {MAX_BYTES} are accepted")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"the body is not valid JSON: {error}", hint=_SHAPES) from error
    if isinstance(found, dict):
        return [found]
    if not isinstance(found, list) or not found:
        got = "an empty array" if found == [] else json_name(found)
        raise BadRequestError(f"the body is {got}", hint=_SHAPES)
    if len(found) > MAX_HEARTBEATS:
        raise TooLargeError(
            f"the body holds {len(found)} heartbeats; at most {MAX_HEARTBEATS} are accepted"
        )
    return found
