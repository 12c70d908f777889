"""Emitters with their state, claimed and stored events, and missing events."""

from dataclasses import dataclass

import msgspec

from tracereel_collector.query.store_reader import StoreReader, read_rows, shown_row
from tracereel_collector.store.sql import query

MAX_EMITTERS = 1_000


class _EmitterSummaryRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `emitters.sql`, in column order; also the field order of the response."""

    emitter_id: str
    state: str
    service: str
    host: str
    pid: int | None
    sdk_version: str
    started_at: str | None
    last_heartbeat_at: str | None
    last_event_at: str | None
    interval_seconds: float | None
    claimed: int
    stored: int
    refused: int
    missing: int
    spooled: int
    dropped: dict[str, int]


@dataclass(frozen=True, slots=True)
class Emitters:
    """Query of `GET /v1/emitters`."""

    store: StoreReader

    def document(
        self,
        tenant: str,
        *,
        now_unix_milli: int,
        emitter_id: str = "",
        state: str = "",
        service: str = "",
        limit: int = 100,
    ) -> bytes:
        """Return the emitters as JSON, most recently active first."""
        rows = read_rows(
            *(self.store, query("emitters"), _EmitterSummaryRow),
            tenant=tenant,
            now=now_unix_milli,
            emitter_id=emitter_id,
            state=state,
            service=service,
            limit=min(limit, MAX_EMITTERS),
        )
        return msgspec.json.encode({"emitters": [shown_row(row) for row in rows]})


def gone_emitters(
    store: StoreReader, tenant: str, emitters: list[str], *, now_unix_nano: int
) -> dict[str, int]:
    """Return the emitters from which no more events are expected, with their last heartbeat."""
    given = {"tenant": tenant, "emitters": emitters, "now": now_unix_nano // 1_000_000}
    return dict(
        read_rows(store, query("gone_emitters"), tuple[str, int], **given) if emitters else ()
    )
