"""Validation of heartbeats: one object or an array."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tracereel.heartbeats import Heartbeat
from tracereel_collector.ingest.check import MAX_YEAR, MIN_YEAR, Rejection
from tracereel_collector.ingest.small_bodies import SmallBody

MAX_BYTES = 1024 * 1024
MAX_HEARTBEATS = 1_000
_BODY = SmallBody(
    kind="heartbeat", id_field="emitter_id", max_bytes=MAX_BYTES, max_objects=MAX_HEARTBEATS
)


@dataclass(frozen=True, slots=True)
class CheckedHeartbeats:
    """Accepted lines and rejections."""

    lines: list[bytes]
    rejected: list[Rejection]


def check_heartbeats(data: bytes) -> CheckedHeartbeats:
    """Split the heartbeats of a body into accepted and rejected ones.

    Raises:
        BadRequestError: the body is neither an object nor an array.
        TooLargeError: it is too large or has too many heartbeats.
    """
    lines: list[bytes] = []
    rejected: list[Rejection] = []
    for index, value in enumerate(_BODY.split(data)):
        try:
            lines.append(msgspec.json.encode(_typed(value)))
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            rejected.append(_BODY.rejection(index, value, error))
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
