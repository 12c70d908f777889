"""Content of events that is stored apart from them, and events put together again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.sql import query

MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum content that one answer holds; events beyond it have `content_omitted`."""
_AT_ONCE: Final = 1_000
"""Maximum events whose content is read by one query."""
_TAIL: Final = re.compile(r',"content_bytes":([0-9]{1,10})\}\s*\Z')
_TAIL_CHARS: Final = 64


class StoredPayload(NamedTuple):
    """Event as it is stored: without content that is stored apart."""

    sequence_number: int
    payload: str


class _Place(msgspec.Struct, gc=False):
    trace_id: str = ""
    session_id: str | None = None


class _Wanted(NamedTuple):
    number: int
    conversation: str


_places: Final = msgspec.json.Decoder(_Place)


def omitted_bytes(payload: str) -> int:
    """Return the size of the content that is stored apart from an event, or 0."""
    found = _TAIL.search(payload, max(0, len(payload) - _TAIL_CHARS))
    return int(found[1]) if found is not None else 0


def rejoined(head: str, content: str) -> str:
    """Return an event as it was sent."""
    return f"{head.rstrip()[:-1]},{content[1:]}"


def marked_as_omitted(head: str) -> str:
    """Return an event with a mark that its content was left out of the answer."""
    return f'{head.rstrip()[:-1]},"content_omitted":true}}'


@dataclass(frozen=True, slots=True)
class EventContents:
    """Reader of content by event."""

    store: StoreReader
    max_bytes: int = MAX_BYTES

    def whole(self, tenant: str, events: Sequence[StoredPayload]) -> list[str]:
        """Return events as they were sent, in order; content beyond the limit is marked as omitted."""
        wanted, left = [], self.max_bytes
        for number, payload in events:
            size = omitted_bytes(payload)
            if not size:
                continue
            left -= size
            if left < 0:
                break
            wanted.append(_Wanted(number, _conversation(payload)))
        found = self._read(tenant, wanted)
        return [
            _whole(payload, found.get(number)) if omitted_bytes(payload) else payload
            for number, payload in events
        ]

    def _read(self, tenant: str, wanted: Sequence[_Wanted]) -> dict[int, str]:
        found: dict[int, str] = {}
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            rows = read_rows(
                *(self.store, query("event_contents"), tuple[int, str]),
                tenant=tenant,
                conversations=sorted({each.conversation for each in some}),
                numbers=[each.number for each in some],
            )
            found |= dict(rows)
        return found


def _conversation(payload: str) -> str:
    """Return the sort key of an event's content, as the view derives it."""
    try:
        place = _places.decode(payload)
    except msgspec.DecodeError:  # fields of other types: the view reads them as empty
        return ""
    return place.session_id or place.trace_id


def _whole(payload: str, content: str | None) -> str:
    return marked_as_omitted(payload) if content is None else rejoined(payload, content)
