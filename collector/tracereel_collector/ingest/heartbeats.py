"""Validation of heartbeats: one object or an array."""

from typing import Any

import msgspec

from tracereel.heartbeats import Heartbeat
from tracereel_collector.ingest.check import MAX_YEAR, MIN_YEAR
from tracereel_collector.ingest.small_bodies import CheckedObjects, SmallBody

MAX_BYTES = 1024 * 1024
MAX_HEARTBEATS = 1_000
_BODY = SmallBody(
    kind="heartbeat", id_field="emitter_id", max_bytes=MAX_BYTES, max_objects=MAX_HEARTBEATS
)


def check_heartbeats(data: bytes) -> CheckedObjects:
    """Split the heartbeats of a body into accepted and rejected ones."""
    return _BODY.check(data, _accepted)


def _accepted(value: Any) -> tuple[str, bytes]:
    beat = msgspec.convert(value, Heartbeat, strict=True)
    for name in ("sent_at", "started_at"):
        moment = getattr(beat, name)
        if moment is not None and not MIN_YEAR <= moment.year <= MAX_YEAR:
            raise msgspec.ValidationError(
                f"Expected a year from {MIN_YEAR} to {MAX_YEAR} - at `$.{name}`"
            )
    return beat.emitter_id, msgspec.json.encode(beat)
