"""Names of attributes that no dialect reads: a new client's dialect is seen when it arrives."""

from dataclasses import dataclass
from string import Template
from typing import Final

import msgspec

from tracereel_collector.query.store_reader import StoreReader, read_rows, shown_row
from tracereel_collector.query.window import DAY
from tracereel_collector.store.dialects.known import FRAGMENTS
from tracereel_collector.store.sql import query

MAX_NAMES: Final = 500
"""Names that one answer has."""
MAX_SPANS: Final = 200_000
"""Spans that are looked at."""
_STATEMENT: Final = Template(query("unread_names")).substitute(FRAGMENTS)


class _UnreadName(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `unread_names.sql`."""

    scope: str
    name: str
    spans: int
    kinds: list[str]
    last_at: str


@dataclass(frozen=True, slots=True)
class UnreadNames:
    """Query of `GET /v1/unread-attributes`."""

    store: StoreReader

    def document(self, tenant: str, *, now_unix_nano: int, limit: int = 100) -> bytes:
        """Return the names of the last day by instrumentation scope, the most frequent first."""
        rows = read_rows(
            *(self.store, _STATEMENT, _UnreadName),
            tenant=tenant,
            since=now_unix_nano - DAY,
            most_spans=MAX_SPANS,
            limit=min(limit, MAX_NAMES),
        )
        return msgspec.json.encode({"attributes": [shown_row(row) for row in rows]})
