"""Count of a run's events that are acknowledged but not yet in the store."""

from collections.abc import Callable
from typing import Any

import msgspec

from tracereel_collector.model import Kind, WaitingEvents

MAX_BYTES = 64 * 1024 * 1024
"""Bytes searched at most; beyond this the result is marked as partial."""
MAX_BODIES = 10_000
_UNDELIVERED = (
    "SELECT id, bytes FROM bodies WHERE kind=?1 AND tenant=?2 AND id > coalesce("
    "(SELECT max(last_body) FROM batches WHERE kind=?1 AND done_unix_nano IS NOT NULL), 0)"
    " ORDER BY id LIMIT ?3"
)
_HOLDING = "SELECT data FROM bodies WHERE id=? AND instr(data, CAST(? AS BLOB)) > 0"


class _WaitingEvent(msgspec.Struct, gc=False):
    trace_id: str = ""


_EVENT = msgspec.json.Decoder(_WaitingEvent)


def events_waiting(read: Callable[..., list[Any]], *, tenant: str, trace_id: str) -> WaitingEvents:
    """Count the events of a run that wait, within the first `MAX_BYTES` that wait."""
    bodies = read(_UNDELIVERED, Kind.EVENTS, tenant, MAX_BODIES + 1)
    name = trace_id.encode()
    found = seen = 0
    # One body per query: readers of the queue share one lock.
    for body_id, size in bodies[:MAX_BODIES]:
        if seen and seen + size > MAX_BYTES:
            return WaitingEvents(events=found, is_whole=False)
        seen += size
        for (data,) in read(_HOLDING, body_id, trace_id):
            lines = data.split(b"\n")
            found += sum(_is_of(line, trace_id) for line in lines if name in line)
    return WaitingEvents(events=found, is_whole=len(bodies) <= MAX_BODIES)


def _is_of(line: bytes, trace_id: str) -> bool:
    try:
        return _EVENT.decode(line).trace_id == trace_id
    except msgspec.DecodeError:
        return False
