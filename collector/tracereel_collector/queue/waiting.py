"""Count of a run's events that are acknowledged but not yet in the store."""

from collections.abc import Callable, Iterator

import msgspec

from tracereel_collector.model import Kind, WaitingEvents

MAX_BYTES = 64 * 1024 * 1024
"""Bytes searched at most; beyond this the result is marked as partial."""
MAX_BODIES = 10_000
_SLICE_BYTES = 4 * 1024 * 1024
"""Bytes searched per query: readers of the queue share one lock."""
_UNDELIVERED = (
    "SELECT id, bytes FROM bodies WHERE kind=?1 AND tenant=?2 AND id > coalesce("
    "(SELECT max(last_body) FROM batches WHERE kind=?1 AND done_unix_nano IS NOT NULL), 0)"
    " ORDER BY id LIMIT ?3"
)
_HOLDING = (
    "SELECT data FROM bodies WHERE kind=?1 AND tenant=?2 AND id BETWEEN ?3 AND ?4"
    " AND instr(data, CAST(?5 AS BLOB)) > 0"
)


class _WaitingEvent(msgspec.Struct, gc=False):
    trace_id: str = ""


_EVENT = msgspec.json.Decoder(_WaitingEvent)
Read = Callable[..., list[tuple[object, ...]]]


def events_waiting(read: Read, *, tenant: str, trace_id: str) -> WaitingEvents:
    """Count the events of a run that wait, within the first `MAX_BYTES` that wait."""
    bodies = [
        (int(str(body)), int(str(size)))
        for body, size in read(_UNDELIVERED, Kind.EVENTS, tenant, MAX_BODIES + 1)
    ]
    found = seen = 0
    for first, last, size in _slices(bodies[:MAX_BODIES]):
        if seen + size > MAX_BYTES and seen:
            return WaitingEvents(events=found, is_whole=False)
        seen += size
        for (data,) in read(_HOLDING, Kind.EVENTS, tenant, first, last, trace_id):
            found += _count(data, trace_id)
    return WaitingEvents(events=found, is_whole=len(bodies) <= MAX_BODIES)


def _slices(bodies: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield first id, last id and bytes of groups of neighbouring bodies."""
    first, last, size = 0, 0, 0
    for body, length in bodies:
        if first and size + length > _SLICE_BYTES:
            yield first, last, size
            first, size = 0, 0
        first, last, size = first or body, body, size + length
    if first:
        yield first, last, size


def _count(data: object, trace_id: str) -> int:
    name = trace_id.encode()
    lines = data.split(b"\n") if isinstance(data, bytes) else []
    return sum(_is_of(line, trace_id) for line in lines if name in line)


def _is_of(line: bytes, trace_id: str) -> bool:
    try:
        return _EVENT.decode(line).trace_id == trace_id
    except msgspec.DecodeError:
        return False
