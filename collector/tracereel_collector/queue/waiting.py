"""Which events of a run are acknowledged and not yet in the store: looked for in what waits."""

from collections.abc import Callable, Iterator

import msgspec

from tracereel_collector.model import Kind, Waiting

MAX_BYTES = 64 * 1024 * 1024
"""Most bytes looked through; beyond, the answer says that it is not the whole."""
MAX_BODIES = 10_000
_SLICE_BYTES = 4 * 1024 * 1024
"""Looked through at once: readers of the queue take turns."""
_UNDELIVERED = (
    "SELECT id, bytes FROM bodies WHERE kind=?1 AND tenant=?2 AND id > coalesce("
    "(SELECT max(last_body) FROM batches WHERE kind=?1 AND done_unix_nano IS NOT NULL), 0)"
    " ORDER BY id LIMIT ?3"
)
_HOLDING = (
    "SELECT data FROM bodies WHERE kind=?1 AND tenant=?2 AND id BETWEEN ?3 AND ?4"
    " AND instr(data, CAST(?5 AS BLOB)) > 0"
)


class _Event(msgspec.Struct, gc=False):
    trace_id: str = ""


_EVENT = msgspec.json.Decoder(_Event)
Read = Callable[..., list[tuple[object, ...]]]


def events_waiting(read: Read, *, tenant: str, trace_id: str) -> Waiting:
    """How many events of a run wait, as far as `MAX_BYTES` of what waits tell."""
    bodies = [
        (int(str(body)), int(str(size)))
        for body, size in read(_UNDELIVERED, Kind.EVENTS, tenant, MAX_BODIES + 1)
    ]
    found = seen = 0
    for first, last, size in _slices(bodies[:MAX_BODIES]):
        if seen + size > MAX_BYTES and seen:
            return Waiting(events=found, is_whole=False)
        seen += size
        for (data,) in read(_HOLDING, Kind.EVENTS, tenant, first, last, trace_id):
            found += _count(data, trace_id)
    return Waiting(events=found, is_whole=len(bodies) <= MAX_BODIES)


def _slices(bodies: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """First id, last id and bytes of neighbouring bodies."""
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
